package inforce

import (
	"fmt"
	"strings"
	"time"

	"stint/internal/text"
	"stint/limiter"
	"stint/records"
)

// Granted is a grant with whom it is for.
type Granted struct {
	Subject    string
	Limit      string    // its name in plans
	Subscribed time.Time // when the subscription of the subject began; zero: unknown
	limiter.Grant
}

// EachGrant calls yield for the grants of a subject, or of all for "", that have not ended at a time, until it
// returns false.
func (r *Records) EachGrant(subject string, now time.Time, yield func(Granted) bool) error {
	one := func(k *records.Known, g *records.Grant) bool {
		granted := Granted{Subject: g.Subject, Limit: g.Limit, Grant: grantOf(g)}
		if k.Subject != nil {
			granted.Subscribed = k.Subject.Subscribed
		}
		return !g.Lasts(now) || yield(granted)
	}
	if subject != "" {
		k, err := r.lookup(subject)
		if err != nil {
			return err
		}
		for i := range k.Grants {
			if !one(k, (*records.Grant)(&k.Grants[i])) {
				break
			}
		}
		return nil
	}
	for e, err := range r.file.All(records.Grants) {
		if err != nil {
			return err
		}
		g, _ := e.Record.(records.Grant)
		k, err := r.lookup(g.Subject)
		if err != nil || !one(k, &g) {
			return err
		}
	}
	return nil
}

// CheckGrant checks a grant of a limit, by its name in plans, to a subject with a plan, "" for the default plan,
// against the rules of l. The warning says why the grant has no effect now; "" if it has. The error means that
// no plan has a limit of that name that could be granted.
func CheckGrant(l *limiter.Limiter, subject, limit, plan string) (warning string, err error) {
	found, may, has, name := false, false, false, "the plan "+text.Quote(plan)
	key, _, _ := strings.Cut(subject, "=")
	if table := l.Table(); table != nil {
		_, byDefault := table.Plans()
		if plan == "" {
			plan, name = byDefault, "the default plan"
		}
		for _, r := range table.Rules() {
			if r.Plan == nil || r.Plan.Limit != limit || r.Path[len(r.Path)-1].Key != key {
				continue
			}
			found = true
			for of, variant := range r.Plan.Rules {
				granted := variant.MayGrant()
				may, has = may || granted, has || granted && of == plan
			}
		}
	}
	switch {
	case !found:
		return fmt.Sprintf("no rule of this node takes a limit %s from the plan of a %s; the grant has no effect until one does", text.Quote(limit), text.Quote(key)), nil
	case !may:
		return "", fmt.Errorf("no plan has a limit %s of which units can be granted", text.Quote(limit))
	case !has && plan == "":
		return "the subject has no plan; the grant has no effect until it has one", nil
	case !has:
		return name + " of the subject has no limit " + text.Quote(limit) + " of which units can be granted; the grant has no effect until it has", nil
	}
	return "", nil
}
