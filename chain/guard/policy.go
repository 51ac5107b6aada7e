package guard

import (
	"context"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// fallBack decides a call by the policies of its takes, because the store cannot. If a take has no
// policy it returns the store's error, which is nil if the call was not sent.
func (s *Store) fallBack(ctx context.Context, call *stint.Call, storeErr error) error {
	if err := call.Check(); err != nil {
		return err
	}
	if fails(call) || slices.ContainsFunc(call.Takes, lacksPolicy) {
		return s.reason(storeErr)
	}
	at, denied := timeOf(call), s.denies(call)
	call.SizeResults()
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		call.Results[i] = s.withoutLocal(t, at)
		for range t.Borrows {
			i++
			call.Results[i] = uncounted(at)
		}
	}
	if err := s.decideLocal(ctx, call, denied); err != nil {
		return err
	}
	transaction.SetCharged(call, transaction.ChargedAtMost(call))
	return nil
}

// fails reports whether a call fails when the store does.
func fails(call *stint.Call) bool {
	return slices.ContainsFunc(call.Takes, func(t stint.Take) bool {
		policy, _ := t.OnFailure()
		return policy == stint.Fail
	})
}

// lacksPolicy reports whether no policy can decide the operation of a take.
func lacksPolicy(t stint.Take) bool { return !t.Op.Asks() && t.Op != stint.Force }

// policy returns the policy of a take: Deny for Local without a local limit or store.
func (s *Store) policy(t *stint.Take) stint.Failure {
	policy, local := t.OnFailure()
	if policy == stint.Local && (local == nil || s.options.Local == nil) {
		return stint.Deny
	}
	return policy
}

// denies reports whether a policy denies the takes that are decided as one.
func (s *Store) denies(call *stint.Call) bool {
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		if !t.Independent && t.Op.Asks() && t.Cost > 0 && s.policy(t) == stint.Deny {
			return true
		}
		i += int(t.Borrows)
	}
	return false
}

// uncounted returns the decision for a take that passes uncounted.
func uncounted(at stint.Instant) stint.Decision {
	return stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit, At: at}
}

// withoutLocal returns the decision for a take without Local.
func (s *Store) withoutLocal(t *stint.Take, at stint.Instant) stint.Decision {
	if s.policy(t) != stint.Deny || t.Limit.Algorithm() == stint.Unlimited {
		d := uncounted(at)
		if t.Op == stint.AskAtMost {
			d.Charge(uint64(t.Cost))
		}
		return d
	}
	d := stint.Decision{Allowed: true, Degraded: true, Limit: t.Limit.Capacity(), ResetAfter: retry, At: at}
	if t.Op.Asks() && t.Cost > 0 {
		d.Allowed, d.RetryAfter = false, retry
	}
	return d
}

// decideLocal lets the local store decide the takes whose policy is Local. If the call is denied
// already, takes that are part of it only peek, except those that overdraw.
func (s *Store) decideLocal(ctx context.Context, call *stint.Call, denied bool) error {
	p := s.part(call)
	defer s.release(p)
	for i := 0; i < len(call.Takes); i++ {
		t := &call.Takes[i]
		if s.policy(t) == stint.Local {
			own := localTake(t)
			if denied {
				peek(&own)
			}
			p.add(i, own)
		}
		i += int(t.Borrows)
	}
	return p.decide(ctx, s.options.Local, call, true)
}

// localTake returns a take for the local store: under its local limit, without borrowing.
func localTake(t *stint.Take) stint.Take {
	_, local := t.OnFailure()
	return stint.Take{Key: t.Key, Limit: local, Cost: t.Cost, Op: t.Op, Independent: t.Independent, Undo: t.Undo}
}
