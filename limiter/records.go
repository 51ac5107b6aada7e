package limiter

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/rule"
)

// Records are what operators set for single clients while the service runs: bans, and overrides of the
// numbers of rules. Its methods run in the goroutines of requests, many at a time, and must not block.
type Records interface {
	// Mentions reports whether entries with this key may have a ban, an override or a plan. Lookup is called
	// for such entries alone.
	Mentions(key string) bool

	// Lookup returns what is known of the subject of an entry; nil if nothing is known, or if it
	// cannot be read.
	Lookup(key, value string) Known

	// BannedNetwork reports whether there is a ban of all addresses of a network, and its end; the
	// zero time for none. If there are several, it is the last of their ends. It may be in the past.
	BannedNetwork(network netip.Prefix) (until time.Time, banned bool)

	// Misfit is called for numbers that a rule cannot have, see [rule.Rule.With]. The rule's own
	// numbers apply. It is called once for each rule and numbers, and again after a change of the
	// rules.
	Misfit(r *rule.Rule, err error)
}

// Known is what is known of a subject.
type Known interface {
	// Ban reports whether there is a ban of the subject, and its end; the zero time for none. It may
	// be in the past.
	Ban() (until time.Time, banned bool)

	// Plan returns the name of the subject's plan at a time, "" for the default plan, and when its
	// subscription began, the zero time if that is unknown.
	Plan(now time.Time) (name string, subscribed time.Time)

	// Override returns the override of a rule that is in force at a time.
	Override(rule string, now time.Time) (Override, bool)

	// AppendGrants appends the grants of a limit, by its name in plans, that have not ended at a time, in the
	// order in which they are used.
	AppendGrants(to []Grant, limit string, now time.Time) []Grant
}

// Grant is units that a subject has beside a limit of its plan.
type Grant = transaction.Grant

// Override are the numbers of a rule for one subject, or for those that match a pattern.
type Override struct {
	rule.Numbers
	Target string    // the subject or the pattern, such as user=42 or user=test-*
	Until  time.Time // zero: without end
}

// BanKind is what a ban was found by. It is "" for a request that is not banned.
type BanKind string

// The kinds of bans.
const (
	BannedSubject BanKind = "subject" // an entry of a descriptor
	BannedAddress BanKind = "address" // the address of the client
)

// banned is the list of all bans.
var banned = &rule.Listed{Name: "ban", Status: http.StatusForbidden}

// subject is an entry of a descriptor of which something is known.
type subject struct {
	descriptor int
	last       bool // it is the last entry, whose plan counts
	Known
}

// lookUp finds what is known of the entries of a request. If the request takes units and is banned, it
// denies the request and returns true.
func (v *Verdict) lookUp(req *Request, domain *rule.Domain, records Records) bool {
	v.at = time.Time{}
	for i := range req.Descriptors {
		entries := req.Descriptors[i].Entries
		for j := range entries {
			if !records.Mentions(entries[j].Key) {
				continue
			}
			if known := records.Lookup(entries[j].Key, entries[j].Value); known != nil {
				v.known = append(v.known, subject{i, j == len(entries)-1, known})
			}
		}
	}
	if !takes(req) {
		return false
	}
	for i := range v.known {
		if until, is := v.known[i].Ban(); is {
			v.ban(BannedSubject, until, req)
		}
	}
	if req.Attributes != nil {
		addr := req.Attributes.RemoteAddress()
		v.banNetwork(netip.PrefixFrom(addr, addr.BitLen()), req, records)
		return v.Ban != ""
	}
	for i := range req.Descriptors {
		for _, e := range req.Descriptors[i].Entries {
			v.banNetwork(domain.Network(e), req, records)
		}
	}
	return v.Ban != ""
}

// banNetwork denies the request if all addresses of a network are banned.
func (v *Verdict) banNetwork(network netip.Prefix, req *Request, records Records) {
	if !network.IsValid() {
		return
	}
	if until, is := records.BannedNetwork(network); is {
		v.ban(BannedAddress, until, req)
	}
}

// ban denies the request until the end of a ban, if that is not over. Of several bans the last end
// counts.
func (v *Verdict) ban(kind BanKind, until time.Time, req *Request) {
	now := v.time(req)
	wait := stint.Never
	if !until.IsZero() {
		if wait = until.Sub(now); wait <= 0 {
			return
		}
	}
	if v.Ban != "" && wait <= v.RetryAfter {
		return
	}
	v.Ban, v.Listed = kind, banned
	v.Decision = stint.Decision{RetryAfter: wait, At: stint.At(now)}
	for i := range v.Results {
		v.Results[i] = Result{Decision: v.Decision}
	}
}

// time returns the time by which records are in force.
func (v *Verdict) time(req *Request) time.Time {
	if v.at.IsZero() {
		if v.at = time.Now(); req.At != 0 {
			v.at = req.At.Time()
		}
	}
	return v.at
}

// Override returns the override whose numbers Asked number i has, if there is one. It is valid until
// the next decision into v.
func (v *Verdict) Override(i int) (Override, bool) {
	a := &v.Asked[i]
	if a.Rule == nil || !a.Rule.Changed {
		return Override{}, false
	}
	return v.overrideOf(a)
}

// overrideOf returns the override that applies to a limit. Of several entries of the descriptor with
// an override of the rule, the last one counts, which is the most specific.
func (v *Verdict) overrideOf(a *Asked) (Override, bool) {
	for _, s := range slices.Backward(v.known) {
		if s.descriptor != a.Descriptor {
			continue
		}
		if o, ok := s.Override(a.Rule.Name, v.at); ok {
			return o, true
		}
	}
	return Override{}, false
}

// override gives limits the numbers of their overrides.
func (v *Verdict) override(req *Request, l *Limiter) {
	v.time(req)
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Rule == nil {
			continue
		}
		if o, ok := v.overrideOf(a); ok {
			a.Rule = l.overridden.With(a.Rule, o.Numbers, l.records.Misfit)
		}
	}
}

// DenyBanned denies a request that takes units if the address of its client is banned, and reports
// whether it did. It is for callers that make no decision because no limit applies.
func (l *Limiter) DenyBanned(req *Request, v *Verdict) bool {
	if l.records == nil {
		return false
	}
	began := l.begin(1)
	v.reset(req)
	if !v.lookUp(req, l.domain(req), l.records) {
		return false
	}
	l.end(v, began, nil)
	return true
}

// UsageTake returns a take that names the history of a rule's key, for stores that keep it, also of a rule that
// keeps none beside grants. entries match the rule. It takes nothing, and nobody decides it.
func UsageTake(r *rule.Rule, entries []rule.Entry, secret *rule.KeySecret) stint.Take {
	key := r.AppendKeyed([]byte{ruleSpace}, entries, secret)
	how := &stint.Handling{Terms: r.Terms, Place: stint.Key(r.AppendPlace(nil, entries))}
	r.Meter(how, entries, secret, "", []Grant{})
	return stint.Take{Key: stint.Key(key), Limit: r.Stored, Handling: how}
}
