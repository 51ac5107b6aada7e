// Package why explains what a request would get from the limits that it meets, and finds the smallest
// changes that would let it pass. It takes nothing.
package why

import (
	"context"
	"slices"
	"sort"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// Kind is what a [Change] changes.
type Kind string

// The kinds of changes.
const (
	Wait        Kind = "wait"             // the client asks later
	Cost        Kind = "cost"             // the request asks for fewer units
	Requests    Kind = "requests"         // of the limit
	Burst       Kind = "burst"            // of the limit
	MaxWait     Kind = "max_wait"         // of the limit
	MinInterval Kind = "min_interval"     // of the limit
	Unban       Kind = "unban"            // the ban ends
	Unlist      Kind = "list"             // the list no longer has the client
	Reset       Kind = "reset"            // the key is reset, which ends the step of its penalty
	Failure     Kind = "on_store_failure" // the policy that decides while the store is away
)

// Change is one change that would let a request pass, or pass one of its limits.
type Change struct {
	Kind Kind

	// Limit is the index in Trial.Asked of the limit that it changes, -1 for none.
	Limit int

	// From and To are the numbers of Requests, Burst and Cost.
	From, To uint64

	// Before and After are the durations of MaxWait and MinInterval; After is that of Wait.
	Before, After time.Duration

	// Numbers are those of an override that makes the change; zero if no override can.
	Numbers rule.Numbers
}

// Explanation says what a request would get now, and what would change that.
type Explanation struct {
	limiter.Trial

	// Before has what a look sees of each limit of Asked.
	Before []stint.Decision

	// Limits has for each limit of Asked that denies the changes that would each alone let the
	// request pass that limit, the smallest first; none for the others.
	Limits [][]Change

	// Smallest are the smallest changes beside waiting that together let the request pass. It is empty
	// if the request passes, or if no change would let it.
	Smallest []Change

	// Wait is after how long the same request passes, if nobody else takes meanwhile: 0 if it passes
	// now, stint.Never if it never does.
	Wait time.Duration

	forecast forecast
}

// Explain explains what req would get from l.
func Explain(ctx context.Context, l *limiter.Limiter, req *limiter.Request) (*Explanation, error) {
	e := &Explanation{forecast: forecast{store: l.Store(), call: new(stint.Call)}}
	if err := l.Try(ctx, req, &e.Trial, e.forecast.foretell); err != nil {
		return nil, err
	}
	e.Limits, e.Before = make([][]Change, len(e.Asked)), make([]stint.Decision, len(e.Asked))
	for i := range e.Asked {
		e.Before[i] = e.Asked[i].Decision // unlimited
		if n := e.forecast.index(e.Take(i)); n >= 0 {
			e.Before[i] = e.Seen(i, e.forecast.before[n])
		}
	}
	for i := range e.Asked {
		if e.Asked[i].Allowed || e.Asked[i].Rule == nil {
			continue
		}
		changes, err := e.changes(ctx, i)
		if err != nil {
			return nil, err
		}
		e.Limits[i] = changes
	}
	e.conclude()
	return e, nil
}

// Denies reports whether limit number i of Asked denies the request, maybe among others. One in quota
// mode does so only if all of these deny.
func (e *Explanation) Denies(i int) bool {
	a := &e.Asked[i]
	switch {
	case a.Allowed:
		return false
	case a.Rule == nil:
		return true
	}
	return !a.Rule.Shadow && (!a.Rule.Quota || e.quotasDeny())
}

// quotasDeny reports whether all limits in quota mode deny.
func (e *Explanation) quotasDeny() bool {
	return !slices.ContainsFunc(e.Asked, func(a limiter.Asked) bool {
		return a.Rule != nil && a.Rule.Quota && a.Rule.Limit.Algorithm() != stint.Unlimited && (a.Allowed || a.Rule.Shadow)
	})
}

// conclude sets Smallest and Wait.
func (e *Explanation) conclude() {
	if e.Passes() {
		return
	}
	if e.Barred != nil {
		e.Wait = e.Ends
		kind := Unlist
		if e.Kind != "" {
			kind = Unban
		}
		e.Smallest = append(e.Smallest, Change{Kind: kind, Limit: -1})
	}
	if !e.Allowed && e.Unmatched {
		e.Smallest, e.Wait = nil, stint.Never
		return
	}
	e.Wait = max(e.Wait, e.RetryAfter)
	quota := false
	for i := range e.Asked {
		if !e.Denies(i) {
			continue
		}
		if e.isQuota(i) {
			if quota {
				continue // one that passes is enough
			}
			quota = true
		}
		changes, ok := lasting(e.Limits[i])
		if !ok {
			e.Smallest = nil
			return
		}
		e.Smallest = append(e.Smallest, changes...)
	}
}

func (e *Explanation) isQuota(i int) bool { return e.Asked[i].Rule != nil && e.Asked[i].Rule.Quota }

// lasting returns the changes that together let a request pass a limit without waiting or asking for
// less.
func lasting(changes []Change) ([]Change, bool) {
	var all []Change
	for _, c := range changes {
		if c.Kind != Wait && c.Kind != Cost {
			all = append(all, c)
		}
	}
	return all, len(all) > 0
}

// changes returns the changes that let the request pass limit number i.
func (e *Explanation) changes(ctx context.Context, i int) ([]Change, error) {
	a := &e.Asked[i]
	var found []Change
	if a.RetryAfter != stint.Never && !a.Degraded {
		found = append(found, Change{Kind: Wait, Limit: i, After: a.RetryAfter})
	}
	units := e.forecast.units(e.forecast.index(e.Take(i)))
	switch before := &e.Before[i]; {
	case a.Degraded:
		return append(found, Change{Kind: Failure, Limit: i}), nil
	case a.Penalized:
		found = append(found, Change{Kind: Reset, Limit: i}) // which gives the key its whole limit back
		if int64(units) <= before.Limit {
			return found, nil
		}
	case before.Remaining > 0 && units == uint64(a.Cost) && uint64(before.Remaining) < units:
		found = append(found, Change{Kind: Cost, Limit: i, From: units, To: uint64(before.Remaining)})
	}
	more, err := e.numbers(ctx, i, units)
	return append(found, more...), err
}

// numbers returns the smallest changes of the numbers of limit number i that together let it pass units.
func (e *Explanation) numbers(ctx context.Context, i int, units uint64) ([]Change, error) {
	r, before := e.Asked[i].Rule, &e.Before[i]
	spec := r.Limit.Spec()
	var found []Change
	switch {
	case spec.Algorithm == stint.LeakyBucket && spec.MaxWait > 0 && before.ResetAfter > spec.MaxWait && spec.Requests > 0:
		found = append(found, Change{Kind: MaxWait, Limit: i, Before: spec.MaxWait, After: before.ResetAfter})
	case spec.Algorithm == stint.SlidingLog && spec.MinInterval > 0 && before.ResetAfter > spec.Per-spec.MinInterval && spec.Requests > 0:
		found = append(found, Change{Kind: MinInterval, Limit: i, Before: spec.MinInterval, After: max(0, spec.Per-before.ResetAfter)})
	}
	c := Change{Kind: Requests, Limit: i, From: uint64(spec.Requests)}
	if bucket(spec.Algorithm) && spec.Requests > 0 {
		c.Kind, c.From = Burst, uint64(spec.Burst)
	}
	room := func(n uint64) (bool, error) {
		made, err := r.With(numbersOf(&spec, uint32(n)))
		if err != nil {
			return true, nil //nolint:nilerr // the rule cannot have these numbers, nor larger ones
		}
		if made.Limit.Spec().MaxWait > 0 {
			return fitsQueue(made, before, units), nil
		}
		n2, err := e.forecast.roomUnder(ctx, e.forecast.index(e.Take(i)), made)
		return n2 >= int64(units), err
	}
	to, ok, err := least(c.From, room)
	switch {
	case err != nil || !ok:
		return nil, err
	case to == c.From:
		return found, nil
	}
	if _, err := r.With(numbersOf(&spec, uint32(to))); err != nil {
		return nil, nil //nolint:nilerr // no number that the rule can have is enough
	}
	c.To, c.Numbers = to, numbersOf(&spec, uint32(to))
	return append([]Change{c}, found...), nil
}

func bucket(a stint.Algorithm) bool { return a == stint.TokenBucket || a == stint.LeakyBucket }

// numbersOf returns the numbers of an override with n requests, or for a bucket with a burst of n.
func numbersOf(spec *stint.Spec, n uint32) rule.Numbers {
	switch {
	case bucket(spec.Algorithm) && spec.Requests > 0:
		return rule.Numbers{Burst: n}
	case spec.Algorithm == stint.LeakyBucket:
		return rule.Numbers{Requests: n, Burst: n}
	}
	return rule.Numbers{Requests: n}
}

// fitsQueue reports whether units fit a leaky bucket, apart from its max_wait, by what a look saw.
func fitsQueue(r *rule.Rule, before *stint.Decision, units uint64) bool {
	spec := r.Limit.Spec()
	spec.MaxWait = 0
	limit := stint.MustLimit(spec)
	st := stint.State{T: int64(before.At.Add(before.ResetAfter))}
	return limit.Test(&st, before.At, units).Allowed
}

// least returns the smallest number from the given one on for which fits holds, if there is one. fits
// holds for all larger ones too.
func least(from uint64, fits func(n uint64) (bool, error)) (n uint64, ok bool, err error) {
	low := from // nothing below low fits
	for step := uint64(1); ; step *= 2 {
		high := from + step - 1
		if high > stint.MaxCost {
			return 0, false, nil
		}
		if ok, err = fits(high); err != nil {
			return 0, false, err
		}
		if ok {
			n := sort.Search(int(high-low), func(i int) bool {
				fit, failed := fits(low + uint64(i))
				if failed != nil {
					err = failed
				}
				return fit
			})
			return low + uint64(n), err == nil, err
		}
		low = high + 1
	}
}
