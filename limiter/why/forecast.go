package why

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/rule"
)

// forecast is what the takes of a request would get. It takes nothing: it peeks at each key, and then
// asks for the takes together with one that is always denied. A key whose state has the numbers of earlier
// rules may get the current ones, as by any request that is denied.
type forecast struct {
	store  stint.Store
	call   *stint.Call      // of the request
	before []stint.Decision // what a peek saw of each take
}

// gate is a take that is always denied. It makes the store deny a call, so that nothing is charged.
// Its key is never written.
const gate = stint.Key("gate")

// never is a limit that lets nothing pass.
var never = stint.MustLimit(stint.Spec{Requests: 0, Per: stint.MaxPer})

// foretell asks the store what the takes of a call would get, and sets their results.
func (f *forecast) foretell(ctx context.Context, c *stint.Call) error {
	f.call = c
	look := stint.Call{At: c.At}
	for i := range c.Takes {
		look.Takes = append(look.Takes, peekOf(c.Takes[i]))
	}
	if err := f.store.Decide(ctx, &look); err != nil {
		return err
	}
	f.before = look.Results
	c.Results = append(c.Results[:0], look.Results...)
	var together []int
	for i := range c.Takes {
		if !c.Takes[i].Independent {
			together = append(together, i)
		}
	}
	if err := f.tryGroup(ctx, together); err != nil {
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
		if err := f.tryGroup(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// peekOf returns a take that looks at the key of another one. A penalty is asked as it is, because it
// is never charged.
func peekOf(take stint.Take) stint.Take {
	take.Independent, take.Borrows = true, 0
	if !isPenalty(&take) {
		take.Op, take.Cost, take.Undo = stint.Ask, 0, nil
	}
	return take
}

func isPenalty(take *stint.Take) bool { return take.Limit.Algorithm() == stint.Penalty }

// tryGroup asks what takes would get that the store decides as one, and sets their results.
func (f *forecast) tryGroup(ctx context.Context, group []int) error {
	c := f.call
	call, of := stint.Call{At: c.At}, []int(nil)
	for _, i := range group {
		take, how := c.Takes[i], *c.Takes[i].Handling
		how.Live = true // a node does not spend units that the store lent it
		take.Independent, take.Limit, take.Handling = false, uncharged(&take), &how
		if before := &f.before[i]; opens(&take, before) {
			c.Results[i] = take.Limit.Test(new(stint.State), before.At, uint64(f.costOf(take.Key, group)))
			continue
		}
		call.Takes, of = append(call.Takes, take), append(of, i)
	}
	if len(of) > 0 {
		how := &stint.Handling{Place: call.Takes[0].Place(), OnFailure: stint.Deny, Live: true}
		call.Takes = append(call.Takes, stint.Take{Key: gate, Limit: never, Cost: 1, Handling: how})
		if err := f.store.Decide(ctx, &call); err != nil {
			return err
		}
	}
	for n, i := range of {
		d, look := &call.Results[n], &f.before[i]
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
	f.spend(group, passes)
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
func opens(take *stint.Take, before *stint.Decision) bool {
	if !take.Limit.Spec().StartUsedUp || before.Degraded || take.Borrows > 0 {
		return false
	}
	untouched := take.Limit.Test(new(stint.State), before.At, 0)
	return untouched.Remaining == before.Remaining && untouched.ResetAfter == before.ResetAfter
}

// spend changes the results of a group to those after its takes.
func (f *forecast) spend(group []int, passes bool) {
	c := f.call
	for n := 0; n < len(group); n++ {
		i := group[n]
		take, d := &c.Takes[i], &c.Results[i]
		sources := group[n+1 : n+1+int(take.Borrows)]
		n += len(sources)
		switch {
		case isPenalty(take) || d.Degraded:
			continue
		case !passes && take.Limit.Spec().Overdraw:
			d.Remaining = max(0, d.Remaining-int64(take.Cost))
			continue
		case !passes:
			continue
		}
		if d.Over = len(sources) > 0 && int64(take.Cost) > f.before[i].Remaining; !d.Over {
			f.charge(i, f.costOf(take.Key, group))
		}
		for _, s := range sources {
			c.Results[s].Allowed = true
			f.charge(s, f.costOf(c.Takes[s].Key, group))
		}
	}
}

// costOf returns what the takes of a group ask of a key together.
func (f *forecast) costOf(key stint.Key, group []int) (units uint32) {
	for _, i := range group {
		if f.call.Takes[i].Key == key {
			units += f.call.Takes[i].Cost
		}
	}
	return units
}

// charge changes the result of a take that passes to that after units were taken from its key.
func (f *forecast) charge(i int, units uint32) {
	take, d, before := &f.call.Takes[i], &f.call.Results[i], &f.before[i]
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

// index returns the index of a take of the call, -1 for nil.
func (f *forecast) index(take *stint.Take) int {
	for n := range f.call.Takes {
		if &f.call.Takes[n] == take {
			return n
		}
	}
	return -1
}

// units returns how many units the takes that are decided as one ask of the key of take n together.
func (f *forecast) units(n int) (units uint64) {
	take := &f.call.Takes[n]
	for m := range f.call.Takes {
		if other := &f.call.Takes[m]; m == n || !take.Independent && !other.Independent && other.Key == take.Key {
			units += uint64(other.Cost)
		}
	}
	return units
}

// roomUnder returns how many units the key of take n would have if its limit were that of another rule,
// which [rule.Rule.With] made of its rule. It is a look.
func (f *forecast) roomUnder(ctx context.Context, n int, r *rule.Rule) (int64, error) {
	take := peekOf(f.call.Takes[n])
	take.Limit = r.Stored
	how := *take.Handling
	how.Terms, how.Local = r.Terms, r.Local
	take.Handling = &how
	spare := int64(0)
	if r.Tally != nil {
		take.Limit, spare = r.Tally, 1
	}
	call := stint.Call{At: f.call.At, Takes: []stint.Take{take}}
	if err := f.store.Decide(ctx, &call); err != nil {
		return 0, fmt.Errorf("looking at rule %s: %w", r.Name, err)
	}
	return max(0, call.Results[0].Remaining-spare), nil
}
