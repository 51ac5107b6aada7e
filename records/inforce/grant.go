package inforce

import (
	"time"

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
