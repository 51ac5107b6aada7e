package limiter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
	"stint/rule"
	"stint/rule/catalog"
)

// Verdict is the answer to a request. The zero Verdict is ready for Decide, and keeps its memory
// from one request to the next. Only one goroutine may use it at a time.
type Verdict struct {
	// Decision is the decision of the whole call, see stint.Combine. Limits in shadow mode do not
	// count. If nothing matched it is allowed without numbers.
	stint.Decision

	// Rule is the rule that denied, else the one nearest to denying; nil if nothing matched.
	Rule *rule.Rule

	// Unmatched means that no limit and no list applies to the request. It passes, or is denied
	// with Options.DenyUnmatched. A descriptor that leads to an entry of an allow list (see
	// rule.Domain.Exempts) counts as matched.
	Unmatched bool

	// Listed is the list that decided, or nil. If it is set, no limit was asked. Bans are one list.
	Listed *rule.Listed

	// Ban is set if a ban denies the request. Then RetryAfter is the time until its end.
	Ban BanKind

	// Domain is the domain of the request, and RequestID its ID, see Request.ID.
	Domain, RequestID string

	// Penalized means that a penalty denied the request: a client goes on after a limit denied it.
	// RetryAfter is until the end of its step.
	Penalized bool

	// Pending means that the request was denied, or was not asked for because Request.Hold held it
	// (Held), and that it may wait or be stored, see Excess. The caller then decides it again, or ends
	// it with Limiter.Deny.
	Pending, Held bool

	// Results has the answer for each descriptor, in order.
	Results []Result

	// Asked has the answer of each limit, in the order of descriptors. It includes limits in shadow
	// mode.
	Asked []Asked

	// Candidates has the answer of each candidate that was asked, in the order of Asked. None of them
	// has any effect on the other fields.
	Candidates []Candidate

	asked []Descriptor // descriptors of the request
	call  stint.Call
	keys  []byte

	unknown []byte // keys for Options.Unknown

	secret *rule.KeySecret // key for hashes in keys; nil: keys contain the hashes as they are
	users  *rule.KeySecret // the same for the users of rules per API

	ends  []end            // the end of each key in keys
	taken []int            // index in Asked for each take of the call; ^n for a source, whose decision is sources[n]
	some  []stint.Decision // temporary space for conclude
	which []*rule.Rule

	matched catalog.Matched // rules of the catalog that match
	shared  []shared

	penalties []penalty        // the penalties that were asked, whose takes come after those in taken
	looks     bool             // Request.Penalties: penalties deny nothing
	sources   []stint.Decision // decisions of sources
	pools     []Asked          // limits that are not asked by themselves because they are sources, see dropPools
	after     stint.Call       // refunds and settlements that follow the decision
	reserved  bool             // a limit that counts responses was charged
	undone    bool
	quota     bool // Request.Quota
	planless  bool // the plan of a client has no limits for a rule
	denyPeeks bool // Request.Debt: a peek may be denied
	ended     Reason
	turn      uint64

	trace Trace // of this decision; nil: it is not traced

	known  []subject // subjects of the request of which something is known
	grants []Grant   // of these, for the takes of the call
	at     time.Time // the time by which these are in force; zero: not read yet
}

// end has the ends in v.keys of a take's key and of the place behind it, and the handling of the
// take.
type end struct {
	key, place int
	how        stint.Handling
}

// Result is the answer for one descriptor.
type Result struct {
	// Rule is the rule that denied, else the one nearest to denying; nil if nothing matched.
	Rule *rule.Rule
	stint.Decision

	// Unmatched means that no limit and no list applies to the descriptor.
	Unmatched bool

	// Penalized means that a penalty of a limit denied it.
	Penalized bool
}

// Asked is the answer of one limit.
type Asked struct {
	Descriptor int        // index of the request's descriptor that it matched
	Rule       *rule.Rule // nil for a limit in the request or its descriptor
	Cost       uint32     // units asked for; of a request of at most its cost what was charged, if any
	stint.Decision

	// Penalized means that a step of the limit's penalty runs, which denies the request. The limit
	// itself was not charged.
	Penalized bool

	dropped bool // another limit replaces it
	tallied bool // the store was asked with a Tally
	matched int  // for a rule of the catalog: its number among the matched ones, from 1
}

// First bytes of keys, so that different kinds of limits never share a bucket.
const (
	ruleSpace   = 'r'
	inlineSpace = 'i'
	ownSpace    = 'd' // for the limit of a descriptor
	apiSpace    = 'a' // for a rule of the catalog
	capSpace    = 'e' // for the cap of an elastic limit
	closedSpace = 'c'

	penaltySpace = 'p' // for the penalty of a limit
)

// unmatched is the decision if no limit applies.
var unmatched = stint.Decision{Allowed: true, Limit: stint.NoLimit, Remaining: stint.NoLimit}

// reset empties the verdict for a new request.
func (v *Verdict) reset(req *Request) {
	v.Domain, v.RequestID, v.asked = req.Domain, req.ID, req.Descriptors
	v.Decision, v.Rule, v.Listed = unmatched, nil, nil
	v.known, v.grants = v.known[:0], v.grants[:0]
	v.turn++
	if v.Ban != "" {
		v.Ban = ""
	}
	v.Results, v.Asked = v.Results[:0], v.Asked[:0]
	v.keys, v.ends, v.taken, v.sources = v.keys[:0], v.ends[:0], v.taken[:0], v.sources[:0]
	v.pools, v.shared, v.penalties, v.Candidates = v.pools[:0], v.shared[:0], v.penalties[:0], v.Candidates[:0]
	v.Penalized, v.looks, v.planless = false, req.Penalties, false
	v.Pending, v.Held, v.ended = false, false, ""
	v.reserved, v.undone, v.Unmatched, v.quota, v.denyPeeks = false, false, false, req.Quota, req.Debt
	v.call.At, v.call.Takes, v.call.Results = req.At, v.call.Takes[:0], v.call.Results[:0]
	v.Results = slices.Grow(v.Results, len(req.Descriptors))
	for range req.Descriptors {
		v.Results = append(v.Results, Result{Decision: unmatched})
	}
}

// Clear empties the verdict, for callers that make no decision because no limit applies.
func (v *Verdict) Clear() {
	v.reset(&Request{})
	v.Unmatched = true
}

// deniedByList is the decision on a request that a list denies.
var deniedByList = stint.Decision{RetryAfter: stint.Never}

// decideByList lets a list of the domain decide if the request is in one, and reports whether it
// is.
func (v *Verdict) decideByList(domain *rule.Domain, req *Request) bool {
	lists := domain.Lists()
	if len(lists) == 0 || !takes(req) {
		return false
	}
	for _, l := range lists {
		if !contains(l, req) {
			continue
		}
		if v.Listed = l; !l.Exempt {
			v.denyBy(l)
		}
		return true
	}
	return false
}

// ambiguousPath is the list that denies requests whose path has too many readings.
var ambiguousPath = &rule.Listed{Name: "unreadable path", Status: http.StatusBadRequest}

// denyBy denies the request by a list.
func (v *Verdict) denyBy(l *rule.Listed) {
	v.Listed, v.Decision = l, deniedByList
	for i := range v.Results {
		v.Results[i] = Result{Decision: deniedByList}
	}
}

// takes reports whether the request would charge a matching limit.
func takes(req *Request) bool {
	if !req.Op.Asks() {
		return false
	}
	for i := range req.Descriptors {
		if req.Descriptors[i].Cost > 0 && !req.Descriptors[i].Refund {
			return true
		}
	}
	return len(req.Descriptors) == 0
}

// contains reports whether the request is in a list.
func contains(l *rule.Listed, req *Request) bool {
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

// match finds the limits that apply and adds their takes. Either domain or rules may be nil.
func (v *Verdict) match(domain *rule.Domain, rules *catalog.Catalog, req *Request, l *Limiter) {
	if v.users = nil; domain.HoldsSecrets(catalog.UserKey) {
		v.users = v.secret
	}
	replacing, elastic, ambiguous, tries := false, false, false, false
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
		planned := false
		if domain != nil && !d.CatalogOnly {
			for _, r := range domain.Match(d.Entries) {
				if r.Plan != nil {
					planned = true
					if r = v.ofPlan(r, i, req); r == nil {
						continue
					}
				}
				replacing = replacing || len(r.Replaces) > 0
				elastic = elastic || r.Elastic != nil
				tries = tries || r.Candidate != nil
				v.Asked = append(v.Asked, Asked{Descriptor: i, Rule: r, Cost: d.Cost, Decision: unmatched})
			}
		}
		if rules != nil {
			ambiguous = !v.matchCatalog(rules, i, req) || ambiguous
		}
		if len(v.Asked) == before && len(v.shared) == sharing && !ambiguous && !planned {
			v.unmatch(domain, rules, i, req, l)
		}
	}
	if (ambiguous || v.planless) && takes(req) {
		v.denyBy(ambiguousPath)
		if !ambiguous {
			v.denyBy(NoPlan)
		}
		v.Asked = v.Asked[:0]
		return
	}
	if replacing {
		v.dropReplaced()
	}
	if elastic && takes(req) {
		v.dropPools()
	}
	if len(v.known) > 0 {
		v.override(req, l)
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
	v.addPenalties(req)
	if tries {
		v.addCandidates(req)
	}
	if rules != nil {
		v.matched.Release()
	}
}

// Entries returns the entries of a descriptor of the request. An observer may read them until it
// returns; the caller may change them afterwards.
func (v *Verdict) Entries(descriptor int) []rule.Entry { return v.asked[descriptor].Entries }

// Take returns the take that the store got for Asked number i, nil if it got none. It is valid
// until the next decision into v.
func (v *Verdict) Take(i int) *stint.Take {
	if i < len(v.taken) && v.taken[i] == i { // nearly always
		return &v.call.Takes[i]
	}
	return v.findTake(i)
}

func (v *Verdict) findTake(i int) *stint.Take {
	if n := slices.Index(v.taken, i); n >= 0 {
		return &v.call.Takes[n]
	}
	return nil
}

// Turn returns a number that is one larger for each decision into v, for observers that sample.
func (v *Verdict) Turn() uint64 { return v.turn }

// takeRule adds the take of Asked number i, which has a rule.
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
	var grants []Grant
	if len(v.known) > 0 {
		grants = v.grantsOf(r, v.Asked[i].Descriptor)
	}
	if len(grants) > 0 || r.Usage != nil && (t.Cost > 0 || !t.Op.Asks() || r.Usage.Rollover > 0) {
		r.Meter(&how, entries, v.secret, v.namePlan(r, v.Asked[i].Descriptor), grants)
	}
	if r.Elastic == nil {
		v.takeAt(i, t, how, entries)
		return
	}
	v.takeElastic(i, t, how, entries, load)
}

// takeOwn adds the take of Asked number i, whose limit comes from its descriptor.
func (v *Verdict) takeOwn(i int, t stint.Take, how stint.Handling, domain string, d *Descriptor) {
	if t.Limit.Algorithm() != stint.Unlimited {
		v.keys = AppendOwnKey(v.keys, domain, d)
		v.take(i, t, how)
	}
}

// AppendOwnKey appends to dst the bytes of the store key for a descriptor's own limit. It consists
// of the domain, the period and all entries, so the bucket keeps its used units when the limit's
// requests change, and no other limit shares it.
func AppendOwnKey(dst []byte, domain string, d *Descriptor) []byte {
	return rule.AppendEntries(append(strconv.AppendInt(append(dst, ownSpace), d.Limit.Spec().Per.Microseconds(), 10), '|'), domain, d.Entries)
}

// dropReplaced removes each limit whose name another matched limit replaces. A limit that is itself
// replaced still replaces others.
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

// inline adds the take for a limit in the request itself.
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

// take adds the take of Asked number i, whose key ends at the current end of v.keys.
func (v *Verdict) take(i int, t stint.Take, how stint.Handling) {
	v.ends = append(v.ends, end{len(v.keys), len(v.keys), how})
	v.taken = append(v.taken, i)
	v.call.Takes = append(v.call.Takes, t)
}

// takeAt is take with the place of the rule.
func (v *Verdict) takeAt(i int, t stint.Take, how stint.Handling, entries []rule.Entry) {
	r, key := v.Asked[i].Rule, len(v.keys)
	v.keys = r.AppendPlace(v.keys, entries)
	v.take(i, t, how)
	v.ends[len(v.ends)-1].key = key
}

// bindKeys sets the keys of the takes.
func (v *Verdict) bindKeys() {
	from := 0
	for i := range v.ends {
		// The keys alias v.keys, which does not change until the store returns. A store does not
		// keep them.
		e, t := &v.ends[i], &v.call.Takes[i]
		t.Handling = &e.how
		t.Key = stint.Key(unsafe.String(&v.keys[from], e.key-from))
		if e.place > e.key {
			e.how.Place = stint.Key(unsafe.String(&v.keys[e.key], e.place-e.key))
		}
		from = e.place
	}
}

// ask passes the takes to the store, if there are any.
func (v *Verdict) ask(ctx context.Context, req *Request, store stint.Store) error {
	if err := v.checkAtMost(req); err != nil || len(v.call.Takes) == 0 {
		return err
	}
	v.bindKeys()
	err := store.Decide(ctx, &v.call)
	if err != nil && len(v.Candidates) > 0 {
		err = transaction.OnlyCandidates(&v.call, err)
	}
	if err != nil {
		return fmt.Errorf("deciding %d limits of domain %q: %w", len(v.call.Takes), v.Domain, explainAtMost(req, err))
	}
	v.readResults()
	return nil
}

// readResults reads the store's answers.
func (v *Verdict) readResults() {
	passed := v.passed()
	for i := range v.taken {
		if v.taken[i] < 0 {
			v.sources = append(v.sources, v.call.Results[i])
			continue
		}
		a, t := &v.Asked[v.taken[i]], &v.call.Takes[i]
		a.Decision = v.call.Results[i]
		if a.Charged > 0 {
			a.Cost = a.Charged
		}
		if a.tallied {
			limits.ApplyTally(&a.Decision, t, a.Cost, v.denyPeeks)
		}
		if a.Rule == nil {
			continue
		}
		charged := t.Op.Asks() && (t.Independent || passed)
		if a.Rule.Soft > 0 && !a.Degraded {
			a.soften(charged)
		}
		v.reserved = v.reserved || a.Rule.Answers != nil && charged && a.Allowed && a.Cost > 0
	}
	v.readPenalties()
	if len(v.Candidates) > 0 {
		v.readCandidates()
	}
}

// passed reports whether the takes that are decided as one were charged.
func (v *Verdict) passed() bool {
	for i := range v.call.Results {
		if !v.call.Takes[i].Independent && !v.call.Results[i].Allowed {
			return false
		}
	}
	return true
}

// soften shows the numbers of the plain limit for a rule whose stored limit includes a soft part,
// and marks takes that passed into that part as over.
func (a *Asked) soften(charged bool) {
	added := a.Rule.Stored.Capacity() - a.Rule.Limit.Capacity()
	a.Over = charged && a.Allowed && a.Cost > 0 && a.Remaining < added
	a.Limit = a.Rule.Limit.Capacity()
	a.Remaining = max(0, a.Remaining-added)
}
