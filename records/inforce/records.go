package inforce

import (
	"net/netip"
	"strings"
	"time"

	"stint"
	"stint/limiter"
	"stint/records"
	"stint/records/apikey"
	"stint/rule"
)

// Records are the records of a file, for [limiter.Options] and for the option APIKeys of middlewares.
// The zero Records is not usable, see NewRecords. It is safe for concurrent use.
type Records struct {
	file    *records.File
	options RecordsOptions
}

var _ limiter.Records = (*Records)(nil)

// RecordsOptions are the optional parts of Records. The functions run in the goroutines of requests, many at
// a time, and must not block.
type RecordsOptions struct {
	// OnError is called for each look-up that fails. The request is decided as if there was no record.
	// Banned addresses and patterns are in memory and never fail. Nil: not called.
	OnError func(err error)

	// OnMisfit is called once for each override that does not fit its rule, and again after a change
	// of the rules. The numbers of the rule apply. Nil: not called.
	OnMisfit func(r *rule.Rule, err error)
}

// NewRecords returns the records of a file.
func NewRecords(file *records.File, o RecordsOptions) *Records { return &Records{file, o} }

// Mentions implements limiter.Records.
func (r *Records) Mentions(key string) bool { return r.file.Mentions(key) }

// Lookup implements limiter.Records.
func (r *Records) Lookup(key, value string) limiter.Known {
	k, err := r.file.Lookup(key, value)
	if err != nil {
		r.failed(err)
		return nil
	}
	if k.Empty() {
		return nil
	}
	return (*known)(k)
}

// BannedNetwork implements limiter.Records.
func (r *Records) BannedNetwork(network netip.Prefix) (until time.Time, banned bool) {
	var always time.Time // before the end of any ban
	if network.IsSingleIP() {
		return r.file.BannedAddress(network.Addr(), always)
	}
	return r.file.BannedNetwork(network, always)
}

// Misfit implements limiter.Records.
func (r *Records) Misfit(of *rule.Rule, err error) {
	if r.options.OnMisfit != nil {
		r.options.OnMisfit(of, err)
	}
}

// Identify returns the subject of an API key, such as user=42, and the name of its plan, "" for the
// default plan. The subject is "" if the key is mistyped or invented, unknown, expired or revoked.
// Mistyped and invented keys need no look-up. The error means that the file could not be read.
func (r *Records) Identify(text string) (subject, plan string, err error) {
	subject, plan, err = r.identify(text, time.Now())
	if err != nil {
		r.failed(err)
	}
	return subject, plan, err
}

func (r *Records) identify(text string, now time.Time) (subject, plan string, err error) {
	parsed, err := apikey.Parse(text)
	if err != nil {
		return "", "", nil //nolint:nilerr // it is no key: nobody is identified
	}
	k, err := r.file.Key(parsed.Hash(), now)
	if err != nil || k == nil {
		return "", "", err
	}
	if plan, err = r.planAt(k.Subject, now); err != nil {
		return "", "", err
	}
	return k.Subject, plan, nil
}

// Plan returns the plan of a subject such as user=42; "" for none, and if it cannot be read.
func (r *Records) Plan(subject string) string {
	plan, err := r.planAt(subject, time.Now())
	if err != nil {
		r.failed(err)
	}
	return plan
}

// Subscribed returns when the subscription of a subject such as user=42 began; the zero time if that is unknown, or
// cannot be read.
func (r *Records) Subscribed(subject string) (began time.Time) {
	k, err := r.lookup(subject)
	if err != nil {
		r.failed(err)
	} else if k.Subject != nil {
		began = k.Subject.Subscribed
	}
	return began
}

// lookup returns what is known of a subject such as user=42.
func (r *Records) lookup(subject string) (*records.Known, error) {
	key, value, _ := strings.Cut(subject, "=")
	return r.file.Lookup(key, value)
}

func (r *Records) planAt(subject string, now time.Time) (string, error) {
	k, err := r.lookup(subject)
	if err != nil || k.Subject == nil {
		return "", err
	}
	return k.Subject.PlanAt(now), nil
}

// Overrides returns how many subjects and patterns have an override of each rule, by its name. It
// counts those that have ended until they are deleted. It returns nil if the file cannot be read.
func (r *Records) Overrides() map[string]int {
	count, err := r.file.CountOverrides()
	if err != nil {
		r.failed(err)
	}
	return count
}

func (r *Records) failed(err error) {
	if r.options.OnError != nil {
		r.options.OnError(err)
	}
}

// known is records.Known for a limiter.
type known records.Known

// Ban implements limiter.Known.
func (k *known) Ban() (until time.Time, banned bool) {
	ban := (*records.Known)(k).Ban(time.Time{}) // before the end of any ban
	if ban == nil {
		return until, false
	}
	return ban.Until, true
}

// Plan implements limiter.Known.
func (k *known) Plan(now time.Time) (name string, subscribed time.Time) {
	if k.Subject == nil {
		return "", subscribed
	}
	return k.Subject.PlanAt(now), k.Subject.Subscribed
}

// AppendGrants implements limiter.Known.
func (k *known) AppendGrants(to []limiter.Grant, limit string, now time.Time) []limiter.Grant {
	for i := range k.Grants {
		if g := (*records.Grant)(&k.Grants[i]); g.Limit == limit && g.Lasts(now) {
			to = append(to, grantOf(g))
		}
	}
	return to
}

// grantOf returns a grant for a limiter.
func grantOf(g *records.Grant) limiter.Grant {
	return limiter.Grant{
		ID: g.Name, Units: int64(g.Units), Priority: g.Priority, From: max(0, stint.At(g.From)), Until: min(stint.At(g.Until), stint.MaxInstant),
	}
}

// Override implements limiter.Known.
func (k *known) Override(name string, now time.Time) (limiter.Override, bool) {
	o := (*records.Known)(k).Override(name, now)
	if o == nil {
		return limiter.Override{}, false
	}
	return limiter.Override{Numbers: numbersOf(o), Target: o.Target, Until: o.Until}, true
}
