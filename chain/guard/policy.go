package guard

import (
	"context"
	"slices"

	"stint"
)

// fallBack answers a call that the store cannot decide, as the policies of its takes
// say. Where there is no policy it returns what the store said; nil: it was not asked.
func (s *Store) fallBack(ctx context.Context, call *stint.Call, said error) error {
	if err := call.Check(); err != nil {
		return err
	}
	if fails(call) || slices.ContainsFunc(call.Takes, lacksPolicy) {
		return s.reason(said)
	}
	at, denied := present(call), s.denies(call)
	call.SizeResults()
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		call.Results[i] = s.plain(t, at)
		for range t.Borrows {
			i++
			call.Results[i] = passing(at)
		}
	}
	return s.share(ctx, call, denied)
}

// fails says whether a call fails where the store does.
func fails(call *stint.Call) bool {
	return slices.ContainsFunc(call.Takes, func(t stint.Take) bool {
		policy, _ := t.OnFailure()
		return policy == stint.Fail
	})
}

// lacksPolicy says whether no policy answers for what a take does.
func lacksPolicy(t stint.Take) bool { return t.Op != stint.Ask && t.Op != stint.Force }

// policy returns what answers for a take.
func (s *Store) policy(t *stint.Take) stint.Failure {
	policy, local := t.OnFailure()
	if policy == stint.Local && (local == nil || s.options.Local == nil) {
		return stint.Deny
	}
	return policy
}

// denies says whether a policy denies the takes that are decided as one.
func (s *Store) denies(call *stint.Call) bool {
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		if !t.Independent && t.Op == stint.Ask && t.Cost > 0 && s.policy(t) == stint.Deny {
			return true
		}
		i += int(t.Borrows)
	}
	return false
}

// passing is the decision on what passes because nothing counts it.
func passing(at stint.Instant) stint.Decision {
	return stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit, At: at}
}

// plain is the decision on a take that nobody counts.
func (s *Store) plain(t *stint.Take, at stint.Instant) stint.Decision {
	if s.policy(t) != stint.Deny || t.Limit.Algorithm() == stint.Unlimited {
		return passing(at)
	}
	d := stint.Decision{Allowed: true, Degraded: true, Limit: t.Limit.Capacity(), ResetAfter: retry, At: at}
	if t.Op == stint.Ask && t.Cost > 0 {
		d.Allowed, d.RetryAfter = false, retry
	}
	return d
}

// share lets the local store decide the takes that have a share there. Where the call
// is denied already those that are part of it only look, but for what overdraws.
func (s *Store) share(ctx context.Context, call *stint.Call, denied bool) error {
	p := s.part(call)
	defer s.release(p)
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		if s.policy(t) == stint.Local {
			own := shared(t)
			if denied {
				look(&own)
			}
			p.add(i, own)
		}
		i += int(t.Borrows)
	}
	return p.decide(ctx, s.options.Local, call, true)
}

// shared is a take as the local store is asked it: under its share, leaning on nobody.
func shared(t *stint.Take) stint.Take {
	_, local := t.OnFailure()
	return stint.Take{Key: t.Key, Limit: local, Cost: t.Cost, Op: t.Op, Independent: t.Independent, Undo: t.Undo}
}
