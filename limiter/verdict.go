package limiter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unsafe"

	"stint"
	"stint/rule"
	"stint/rule/catalog"
)

// Verdict is the answer to a request. The zero Verdict is ready to be decided
// into, and keeps its memory from one request to the next. It belongs to one
// goroutine at a time.
type Verdict struct {
	// Decision is that of the whole call, see stint.Combine. Limits in shadow mode
	// have no part in it. Where nothing matched it is allowed without numbers.
	stint.Decision

	// Rule is the rule that denied, else the one nearest to denying; nil where
	// nothing matched.
	Rule *rule.Rule

	// Unmatched says that no limit and no list applies to the request, which therefore passes
	// or, with Options.DenyUnmatched, is denied. A descriptor that leads to an entry of an
	// allow list (see rule.Domain.Exempts) is matched.
	Unmatched bool

	// Listed is the list that decided, nil where none did. Then no limit was asked.
	Listed *rule.Listed

	// Domain is the domain that was asked.
	Domain string

	// Results are the answers for each descriptor, in order.
	Results []Result

	// Asked are the answers of each limit, in the order of descriptors, those in
	// shadow mode among them.
	Asked []Asked

	asked []Descriptor // of the request
	call  stint.Call
	keys  []byte

	secret *rule.KeySecret // of hashes in keys; nil: they stand there as they are
	users  *rule.KeySecret // the same, of the users of rules per API

	ends  []end            // where in keys each key ends
	taken []int            // the Asked of each take of the call; what others lean on: see leaned
	some  []stint.Decision // scratch of conclude
	which []*rule.Rule

	matched catalog.Matched // what the catalog has
	shared  []shared

	leaned   []stint.Decision // of takes that others lean on; number n is ^n in taken
	pools    []Asked          // those that were not asked because others lean on them
	after    stint.Call       // what is given back or settled
	reserved bool             // something that counts answers was charged
	undone   bool
	quota    bool // of the request
	looks    bool // may be denied: Request.Debt
}

// end is where the key of a take and the place behind it end, and how the take is handled.
type end struct {
	key, place int
	how        stint.Handling
}

// Result is the answer for one descriptor.
type Result struct {
	// Rule is the rule that denied, else the one nearest to denying; nil where
	// nothing matched.
	Rule *rule.Rule
	stint.Decision

	// Unmatched says that no limit and no list applies to the descriptor.
	Unmatched bool
}

// Asked is the answer of one limit.
type Asked struct {
	Descriptor int        // which of the request's descriptors it matched
	Rule       *rule.Rule // nil for a limit that the request or its descriptor brought
	Cost       uint32
	stint.Decision

	dropped bool // another one replaces it
	tallied bool // the store was asked for a Tally
	matched int  // of a rule of the catalog: its number among those that matched, from 1
}

// Spaces of keys, so that a rule and a limit in a request never share a bucket.
const (
	ruleSpace   = 'r'
	inlineSpace = 'i'
	ownSpace    = 'd' // of a limit that a descriptor brings
	apiSpace    = 'a' // of a rule of the catalog
	capSpace    = 'e' // what a key may take with all that an elastic limit lends it
	closedSpace = 'c'
)

// unmatched is the decision where no limit applies.
var unmatched = stint.Decision{Allowed: true, Limit: stint.NoLimit, Remaining: stint.NoLimit}

// reset empties the verdict for a new request.
func (v *Verdict) reset(req *Request) {
	v.Domain, v.asked = req.Domain, req.Descriptors
	v.Decision, v.Rule, v.Listed = unmatched, nil, nil
	v.Results, v.Asked = v.Results[:0], v.Asked[:0]
	v.keys, v.ends, v.taken, v.leaned = v.keys[:0], v.ends[:0], v.taken[:0], v.leaned[:0]
	v.pools, v.shared = v.pools[:0], v.shared[:0]
	v.reserved, v.undone, v.Unmatched, v.quota, v.looks = false, false, false, req.Quota, req.Debt
	v.call.At, v.call.Takes, v.call.Results = req.At, v.call.Takes[:0], v.call.Results[:0]
	v.Results = slices.Grow(v.Results, len(req.Descriptors))
	for range req.Descriptors {
		v.Results = append(v.Results, Result{Decision: unmatched})
	}
}

// barred is the decision on a request that a list denies.
var barred = stint.Decision{RetryAfter: stint.Never}

// list lets a list of the domain decide, if the request is in one.
func (v *Verdict) list(domain *rule.Domain, req *Request) bool {
	lists := domain.Lists()
	if len(lists) == 0 || !takes(req) {
		return false
	}
	for _, l := range lists {
		if !holds(l, req) {
			continue
		}
		if v.Listed = l; !l.Exempt {
			v.bar(l)
		}
		return true
	}
	return false
}

// unreadable is what denies a request with a path that may be too many others.
var unreadable = &rule.Listed{Name: "unreadable path", Status: http.StatusBadRequest}

// bar lets a list deny the request.
func (v *Verdict) bar(l *rule.Listed) {
	v.Listed, v.Decision = l, barred
	for i := range v.Results {
		v.Results[i] = Result{Decision: barred}
	}
}

// takes says whether the request would charge anything, were there a limit for it.
func takes(req *Request) bool {
	if req.Op != stint.Ask {
		return false
	}
	for i := range req.Descriptors {
		if req.Descriptors[i].Cost > 0 && !req.Descriptors[i].Refund {
			return true
		}
	}
	return len(req.Descriptors) == 0
}

// holds says whether the request is in a list.
func holds(l *rule.Listed, req *Request) bool {
	if req.Attributes != nil && l.HoldsRequest(req.Attributes) {
		return true
	}
	for i := range req.Descriptors {
		if l.HoldsEntries(req.Descriptors[i].Entries) {
			return true
		}
	}
	return false
}

// match finds the limits that apply and turns them into takes. The table may lack the
// domain, or the catalog.
func (v *Verdict) match(domain *rule.Domain, rules *catalog.Catalog, req *Request, l *Limiter) {
	if v.users = nil; domain.HoldsSecrets(catalog.UserKey) {
		v.users = v.secret
	}
	replacing, elastic, unread := false, false, false
	if rules != nil {
		v.matched.Reset()
	}
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		before, sharing := len(v.Asked), len(v.shared)
		if d.Limit != nil {
			v.Asked = append(v.Asked, Asked{Descriptor: i, Cost: d.Cost, Decision: unmatched})
			continue
		}
		if domain != nil && !d.CatalogOnly {
			for _, r := range domain.Match(d.Entries) {
				replacing = replacing || len(r.Replaces) > 0
				elastic = elastic || r.Elastic != nil
				v.Asked = append(v.Asked, Asked{Descriptor: i, Rule: r, Cost: d.Cost, Decision: unmatched})
			}
		}
		if rules != nil {
			unread = !v.matchCatalog(rules, i, req) || unread
		}
		if len(v.Asked) == before && len(v.shared) == sharing && !unread {
			v.unmatch(domain, rules, i, req, l)
		}
	}
	if unread && takes(req) {
		v.bar(unreadable)
		v.Asked = v.Asked[:0]
		return
	}
	if replacing {
		v.dropReplaced()
	}
	if elastic && takes(req) {
		v.dropPools()
	}
	each := req.Each || req.Quota || domain != nil && !domain.Atomic()
	for i := range v.Asked {
		a := &v.Asked[i]
		d := &req.Descriptors[a.Descriptor]
		t, how := stint.Take{Cost: a.Cost, Op: req.Op, Independent: each}, stint.Handling{OnFailure: req.OnFailure}
		if d.Refund {
			t.Op, t.Independent = stint.Refund, true
		}
		switch {
		case a.Rule == nil:
			t.Limit = d.Limit
			if d.Tally != nil && domain != nil && !domain.Atomic() {
				t.Limit, a.tallied = d.Tally, true
			}
			v.takeOwn(i, t, how, req.Domain, d)
		case a.Rule.Limit.Algorithm() != stint.Unlimited:
			v.takeRule(i, t, d.Entries, l.load)
		}
	}
	if rules != nil {
		v.matched.Release()
	}
}

// Entries returns those of a descriptor of the request, for who is shown the decision: the
// caller may change them afterwards.
func (v *Verdict) Entries(descriptor int) []rule.Entry { return v.asked[descriptor].Entries }

// Take returns how the store was asked for Asked number i, nil where it was not: until the
// verdict is used again.
func (v *Verdict) Take(i int) *stint.Take {
	if n := slices.Index(v.taken, i); n >= 0 {
		return &v.call.Takes[n]
	}
	return nil
}

// takeRule adds the take of Asked number i, which is for a rule.
func (v *Verdict) takeRule(i int, t stint.Take, entries []rule.Entry, load func(string) (float64, bool)) {
	r := v.Asked[i].Rule
	t.Limit = r.Stored
	how := stint.Handling{OnFailure: r.OnStoreFailure, Local: r.Local}
	if r.Tally != nil {
		t.Limit, v.Asked[i].tallied = r.Tally, true
	}
	t.Independent = t.Independent || r.Shadow || r.Quota
	if n := v.Asked[i].matched; n > 0 {
		v.keys = v.matched.AppendKeyed(append(v.keys, apiSpace), n-1, v.users)
		v.take(i, t, how)
		return
	}
	v.keys = append(v.keys, ruleSpace)
	v.keys = r.AppendKeyed(v.keys, entries, v.secret)
	how.Terms, how.Live = r.Terms, r.Answers != nil || r.Elastic != nil
	if r.Elastic == nil {
		v.takeAt(i, t, how, entries)
		return
	}
	v.stretch(i, t, how, entries, load)
}

// takeOwn adds the take of Asked number i, which is for a limit that its descriptor
// brings.
func (v *Verdict) takeOwn(i int, t stint.Take, how stint.Handling, domain string, d *Descriptor) {
	if t.Limit.Algorithm() != stint.Unlimited {
		v.keys = AppendOwnKey(v.keys, domain, d)
		v.take(i, t, how)
	}
}

// AppendOwnKey appends to dst the bytes of the key under which a store counts the limit
// that a descriptor brings. It is made of the domain, the period and all entries, so
// the bucket keeps what was used when the requests of the limit change, and no other
// limit ever meets it.
func AppendOwnKey(dst []byte, domain string, d *Descriptor) []byte {
	dst = strconv.AppendInt(append(dst, ownSpace), d.Limit.Spec().Per.Microseconds(), 10)
	dst = rule.AppendEntry(append(dst, '|'), domain, "")
	for _, e := range d.Entries {
		dst = rule.AppendEntry(dst, e.Key, e.Value)
	}
	return dst
}

// dropReplaced removes the limits whose name another matched limit replaces. One
// that is itself replaced still replaces others.
func (v *Verdict) dropReplaced() {
	for i := range v.Asked {
		if r := v.Asked[i].Rule; r != nil && r.Given != "" && v.replaced(r.Given) {
			v.Asked[i].dropped = true
		}
	}
	v.Asked = slices.DeleteFunc(v.Asked, func(a Asked) bool { return a.dropped })
}

func (v *Verdict) replaced(name string) bool {
	for i := range v.Asked {
		if r := v.Asked[i].Rule; r != nil && slices.Contains(r.Replaces, name) {
			return true
		}
	}
	return false
}

// inline asks one limit that the request brought.
func (v *Verdict) inline(key string, limit *stint.Limit, req *Request) {
	for i := range req.Descriptors {
		v.Asked = append(v.Asked, Asked{Descriptor: i, Cost: req.Descriptors[i].Cost, Decision: unmatched})
		if limit.Algorithm() == stint.Unlimited {
			continue
		}
		v.keys = append(append(v.keys, inlineSpace), key...)
		v.take(len(v.Asked)-1, stint.Take{Limit: limit, Cost: req.Descriptors[i].Cost, Op: req.Op}, stint.Handling{OnFailure: req.OnFailure})
	}
}

// take adds the take of Asked number i, whose key ends where keys end now.
func (v *Verdict) take(i int, t stint.Take, how stint.Handling) {
	v.ends = append(v.ends, end{len(v.keys), len(v.keys), how})
	v.taken = append(v.taken, i)
	v.call.Takes = append(v.call.Takes, t)
}

// takeAt is take with the place that the rule says.
func (v *Verdict) takeAt(i int, t stint.Take, how stint.Handling, entries []rule.Entry) {
	r, key := v.Asked[i].Rule, len(v.keys)
	v.keys = r.AppendPlace(v.keys, entries)
	v.take(i, t, how)
	v.ends[len(v.ends)-1].key = key
}

// ask puts the takes to the store, if there are any.
func (v *Verdict) ask(ctx context.Context, store stint.Store) error {
	if len(v.call.Takes) == 0 {
		return nil
	}
	from := 0
	for i := range v.ends {
		// The keys stay in v.keys, which nobody changes before the store has returned;
		// a store does not keep them.
		e, t := &v.ends[i], &v.call.Takes[i]
		t.Handling = &e.how
		t.Key = stint.Key(unsafe.String(&v.keys[from], e.key-from))
		if e.place > e.key {
			e.how.Place = stint.Key(unsafe.String(&v.keys[e.key], e.place-e.key))
		}
		from = e.place
	}
	if err := store.Decide(ctx, &v.call); err != nil {
		return fmt.Errorf("deciding %d limits of domain %q: %w", len(v.call.Takes), v.Domain, err)
	}
	passed := v.passed()
	for i := range v.call.Results {
		if v.taken[i] < 0 {
			v.leaned = append(v.leaned, v.call.Results[i])
			continue
		}
		a, t := &v.Asked[v.taken[i]], &v.call.Takes[i]
		a.Decision = v.call.Results[i]
		if a.tallied {
			a.tell(t, v.looks)
		}
		if a.Rule == nil {
			continue
		}
		charged := t.Op == stint.Ask && (t.Independent || passed)
		if a.Rule.Soft > 0 && !a.Degraded {
			a.soften(charged)
		}
		v.reserved = v.reserved || a.Rule.Answers != nil && charged && a.Allowed && a.Cost > 0
	}
	return nil
}

// passed says whether the takes that stand or fall together were charged.
func (v *Verdict) passed() bool {
	for i := range v.call.Results {
		if !v.call.Takes[i].Independent && !v.call.Results[i].Allowed {
			return false
		}
	}
	return true
}

// tell makes of the answer of a Tally that of the limit: over where its last unit is used.
func (a *Asked) tell(t *stint.Take, looks bool) {
	if a.Degraded { // a policy has answered
		if a.Limit == t.Limit.Capacity() {
			a.Limit--
		}
		return
	}
	over := a.Remaining == 0
	a.Limit--
	a.Remaining = max(0, a.Remaining-1)
	if t.Op != stint.Ask {
		return
	}
	a.Allowed, a.RetryAfter = true, 0
	switch {
	case !over || a.Cost == 0 && !looks:
	case int64(a.Cost) > a.Limit:
		a.Allowed, a.RetryAfter = false, stint.Never
	default:
		a.Allowed, a.RetryAfter = false, a.ResetAfter
	}
}

// soften shows the numbers of the plain limit where the store holds one that is
// larger by a soft part: what passed into that part is marked.
func (a *Asked) soften(charged bool) {
	added := a.Rule.Stored.Capacity() - a.Rule.Limit.Capacity()
	a.Over = charged && a.Allowed && a.Cost > 0 && a.Remaining < added
	a.Limit = a.Rule.Limit.Capacity()
	a.Remaining = max(0, a.Remaining-added)
}
