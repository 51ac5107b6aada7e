package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/rule"
)

// Trial is what Decide would answer to a request now. Make one with [Limiter.Try]. Only one goroutine
// may use it at a time.
type Trial struct {
	// Verdict is the verdict of the limits, also where a ban or a list decides before them. The
	// decisions in Asked are those after the request.
	Verdict

	// Barred is the list that decides before any limit; nil: none. For a ban, Kind is what it was
	// found by, and Ends the time until its end, stint.Never for none.
	Barred *rule.Listed
	Kind   BanKind
	Ends   time.Duration

	// Before has what a look would answer about each limit of Asked.
	Before []stint.Decision

	before []stint.Decision // what a look would answer about each take
}

// Passes reports whether the request would pass.
func (t *Trial) Passes() bool {
	if t.Barred != nil {
		return t.Barred.Exempt
	}
	return t.Allowed
}

// Units returns how many units the takes that are decided as one ask of the key of limit number i of Asked
// together.
func (t *Trial) Units(i int) (units uint64) {
	n := slices.Index(t.taken, i)
	if n < 0 {
		return 0
	}
	take := &t.call.Takes[n]
	for m := range t.call.Takes {
		if other := &t.call.Takes[m]; m == n || !take.Independent && !other.Independent && other.Key == take.Key {
			units += uint64(other.Cost)
		}
	}
	return units
}

// gate is a take that is always denied. It makes the store deny a call, so that nothing is charged.
// Its key is never written.
const gate = stint.Key("gate")

// Try fills in t with what Decide would answer to req, whose Op is stint.Ask, and takes nothing: no
// limit is charged, no denied try is counted, and no observer gets it. A penalty that this request would
// start is not foreseen. Descriptors with the same key that are not decided as one are tried each alone.
// A key whose state has the numbers of earlier rules may get the current ones, as by any request that
// is denied.
func (l *Limiter) Try(ctx context.Context, req *Request, t *Trial) error {
	v := &t.Verdict
	v.reset(req)
	v.secret = l.secret
	domain := l.domain(req)
	t.bar(req, domain, l.records)
	if rules := l.rules(req); domain != nil || rules != nil {
		v.match(domain, rules, req, l)
	} else {
		for i := range v.Results {
			v.Results[i].Unmatched = true
		}
	}
	v.concludeUnmatched(req, l.denyUnmatched && !req.Matched)
	t.Before = t.Before[:0]
	for range v.Asked {
		t.Before = append(t.Before, unmatched)
	}
	if len(v.call.Takes) > 0 {
		v.bindKeys()
		if err := t.try(ctx, l.store); err != nil {
			return fmt.Errorf("looking at %d limits of domain %q: %w", len(v.call.Takes), v.Domain, err)
		}
		v.readResults()
	}
	if len(v.penalties) > 0 {
		v.waitForAll()
	}
	v.conclude()
	return nil
}

// bar finds the list that decides before any limit.
func (t *Trial) bar(req *Request, domain *rule.Domain, records Records) {
	v := &t.Verdict
	t.Barred, t.Kind, t.Ends = nil, "", 0
	if records != nil && v.lookUp(req, domain, records) || domain != nil && v.decideByList(domain, req) {
		t.Barred, t.Kind, t.Ends = v.Listed, v.Ban, v.RetryAfter
		v.Ban, v.Listed, v.Decision = "", nil, unmatched
		for i := range v.Results {
			v.Results[i] = Result{Decision: unmatched}
		}
	}
}

// try asks the store what the takes would get, and sets their results.
func (t *Trial) try(ctx context.Context, store stint.Store) error {
	c := &t.call
	look := stint.Call{At: c.At}
	for i := range c.Takes {
		look.Takes = append(look.Takes, peekOf(c.Takes[i], t.isPenalty(i)))
	}
	if err := store.Decide(ctx, &look); err != nil {
		return err
	}
	t.before = append(t.before[:0], look.Results...)
	t.readBefore()
	c.Results = append(c.Results[:0], look.Results...)
	var together []int
	for i := range c.Takes {
		if !c.Takes[i].Independent {
			together = append(together, i)
		}
	}
	if err := t.tryGroup(ctx, store, together); err != nil {
		return err
	}
	for i := 0; i < len(c.Takes); i++ {
		if !c.Takes[i].Independent {
			continue
		}
		group := []int{i}
		for range c.Takes[i].Borrows {
			i++
			group = append(group, i)
		}
		if err := t.tryGroup(ctx, store, group); err != nil {
			return err
		}
	}
	return nil
}

// peekOf returns a take that looks at the key of another one. A penalty is asked as it is, because it
// is never charged.
func peekOf(take stint.Take, penalty bool) stint.Take {
	take.Independent, take.Borrows = true, 0
	if !penalty {
		take.Op, take.Cost, take.Undo = stint.Ask, 0, nil
	}
	return take
}

func (t *Trial) isPenalty(take int) bool {
	return slices.ContainsFunc(t.penalties, func(p penalty) bool { return p.take == take })
}

// readBefore sets Before.
func (t *Trial) readBefore() {
	for n, i := range t.taken {
		if i < 0 {
			continue
		}
		a := t.Asked[i]
		a.Cost, a.Decision = 0, t.before[n]
		if a.tallied {
			a.applyTally(&t.call.Takes[n], false)
		}
		if a.Rule != nil && a.Rule.Soft > 0 && !a.Degraded {
			a.soften(false)
		}
		t.Before[i] = a.Decision
	}
}

// tryGroup asks what takes would get that the store decides as one, and sets their results.
func (t *Trial) tryGroup(ctx context.Context, store stint.Store, group []int) error {
	c := &t.call
	call, of := stint.Call{At: c.At}, []int(nil)
	for _, i := range group {
		take, how := c.Takes[i], *c.Takes[i].Handling
		how.Live = true // a node does not spend units that the store lent it
		take.Independent, take.Limit, take.Handling = false, uncharged(&take), &how
		if before := &t.before[i]; t.opens(&take, before) {
			c.Results[i] = take.Limit.Test(new(stint.State), before.At, uint64(t.costOf(take.Key, group)))
			continue
		}
		call.Takes, of = append(call.Takes, take), append(of, i)
	}
	if len(of) > 0 {
		how := &stint.Handling{Place: call.Takes[0].Place(), OnFailure: stint.Deny, Live: true}
		call.Takes = append(call.Takes, stint.Take{Key: gate, Limit: closed, Cost: 1, Handling: how})
		if err := store.Decide(ctx, &call); err != nil {
			return err
		}
	}
	for n, i := range of {
		d, look := &call.Results[n], &t.before[i]
		if !d.Allowed && !d.Degraded && c.Takes[i].Coordination() == stint.Leased && int64(c.Takes[i].Cost) <= look.Remaining {
			d = look // the store lacks what it lent to this node
		}
		c.Results[i] = *d
	}
	passes := true
	for n := 0; n < len(group); n++ {
		i := group[n]
		passes = passes && c.Results[i].Allowed
		n += int(c.Takes[i].Borrows)
	}
	t.spend(group, passes)
	return nil
}

// uncharged returns the limit of a take that no denied take changes, with the same numbers.
func uncharged(t *stint.Take) *stint.Limit {
	spec := t.Limit.Spec()
	if terms := t.Terms(); !spec.Overdraw && !spec.CountDenied || terms != nil && terms.Own != nil {
		return t.Limit
	}
	spec.Overdraw, spec.CountDenied = false, false
	return stint.MustLimit(spec)
}

// opens reports whether a take is the first of its key, and may begin its window although it is denied.
func (t *Trial) opens(take *stint.Take, before *stint.Decision) bool {
	if !take.Limit.Spec().StartUsedUp || before.Degraded || take.Borrows > 0 {
		return false
	}
	untouched := take.Limit.Test(new(stint.State), before.At, 0)
	return untouched.Remaining == before.Remaining && untouched.ResetAfter == before.ResetAfter
}

// spend changes the results of a group to those after its takes.
func (t *Trial) spend(group []int, passes bool) {
	c := &t.call
	for n := 0; n < len(group); n++ {
		i := group[n]
		take, d := &c.Takes[i], &c.Results[i]
		sources := group[n+1 : n+1+int(take.Borrows)]
		n += len(sources)
		switch {
		case t.isPenalty(i) || d.Degraded:
			continue
		case !passes && take.Limit.Spec().Overdraw:
			d.Remaining = max(0, d.Remaining-int64(take.Cost))
			continue
		case !passes:
			continue
		}
		if d.Over = len(sources) > 0 && int64(take.Cost) > t.before[i].Remaining; !d.Over {
			t.charge(i, t.costOf(take.Key, group))
		}
		for _, s := range sources {
			c.Results[s].Allowed = true
			t.charge(s, t.costOf(c.Takes[s].Key, group))
		}
	}
}

// costOf returns what the takes of a group ask of a key together.
func (t *Trial) costOf(key stint.Key, group []int) (units uint32) {
	for _, i := range group {
		if t.call.Takes[i].Key == key {
			units += t.call.Takes[i].Cost
		}
	}
	return units
}

// charge changes the result of a take that passes to that after units were taken from its key.
func (t *Trial) charge(i int, units uint32) {
	take, d, before := &t.call.Takes[i], &t.call.Results[i], &t.before[i]
	if units == 0 || d.Limit == stint.NoLimit {
		return
	}
	d.Remaining = max(0, before.Remaining-int64(units))
	spec := take.Limit.Spec()
	late := time.Duration(0) // such a window stays for one block more
	if spec.StartUsedUp {
		spec.StartUsedUp, late = false, spec.Per/time.Duration(spec.Blocks)
	}
	first := stint.MustLimit(spec).Take(new(stint.State), before.At, uint64(min(int64(units), take.Limit.Capacity())))
	switch {
	case spec.Algorithm == stint.LeakyBucket:
		// The time until the last place is served is the whole state. It also bounds Remaining by max_wait.
		d.Delay, d.ResetAfter = before.ResetAfter, before.ResetAfter+first.ResetAfter
		d.Remaining = take.Limit.Test(&stint.State{T: int64(before.At.Add(d.ResetAfter))}, before.At, 0).Remaining
	case spec.Algorithm == stint.TokenBucket && spec.Step:
		used := uint64(before.Limit - before.Remaining + int64(units))
		d.ResetAfter = take.Limit.Take(new(stint.State), before.At, used).ResetAfter
	case spec.Algorithm == stint.TokenBucket:
		d.ResetAfter = before.ResetAfter + first.ResetAfter
	case spec.Algorithm == stint.FixedWindow && before.ResetAfter > 0:
	default:
		d.ResetAfter = max(before.ResetAfter, first.ResetAfter+late)
	}
}

// RoomUnder returns how many units a key would have in limit number i of Asked, before the request, if
// the limit were that of another rule: r is made of its rule by [rule.Rule.With]. It is a look.
func (l *Limiter) RoomUnder(ctx context.Context, t *Trial, i int, r *rule.Rule) (int64, error) {
	n := slices.Index(t.taken, i)
	if n < 0 {
		return stint.NoLimit, nil
	}
	take := peekOf(t.call.Takes[n], false)
	take.Limit = r.Stored
	how := *take.Handling
	how.Terms, how.Local = r.Terms, r.Local
	take.Handling = &how
	spare := int64(0)
	if r.Tally != nil {
		take.Limit, spare = r.Tally, 1
	}
	call := stint.Call{At: t.call.At, Takes: []stint.Take{take}}
	if err := l.store.Decide(ctx, &call); err != nil {
		return 0, fmt.Errorf("looking at rule %s: %w", r.Name, err)
	}
	return max(0, call.Results[0].Remaining-spare), nil
}
