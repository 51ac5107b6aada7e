package limiter

import (
	"context"
	"testing"

	"stint"
)

// recorder is a store that records its takes, and answers as failure policies do.
type recorder struct {
	takes  []stint.Take
	denies bool
}

func (r *recorder) Decide(_ context.Context, call *stint.Call) error {
	r.takes = r.takes[:0]
	for i := range call.Takes {
		r.takes = append(r.takes, call.Takes[i].Clone())
	}
	call.Results = call.Results[:0]
	for range call.Takes {
		call.Results = append(call.Results, stint.Decision{Allowed: !r.denies, Degraded: true, Limit: 3, Remaining: 2})
	}
	return nil
}

// TestOnFailure: each take contains its failure policy: from its rule, or from the request for a
// limit of the request itself. Sources have no local share. The verdict shows a degraded decision
// unchanged.
func TestOnFailure(t *testing.T) {
	rules := table(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10, elastic: {from: all, upto: 200%}, on_store_failure: local, local_share: 50%, nodes: 1}
  - key: soft
    rate_limit: {unit: hour, requests_per_unit: 10, soft: 50%, on_store_failure: local, local_share: 30%, nodes: 1}
  - key: strict
    rate_limit: {unit: hour, requests_per_unit: 10, on_store_failure: deny}
  - key: free
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: pool
    value: all
    rate_limit: {name: all, unit: hour, requests_per_unit: 100}
`)
	store := new(recorder)
	l := New(store, rules, Options{})
	var v Verdict
	if err := l.Decide(ctx, describe(1, "user", "a", "soft", "a", "strict", "a", "free", "a"), &v); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		policy stint.Failure
		share  int64
	}{{stint.Local, 5}, {stint.Local, 0}, {stint.Local, 0}, {stint.Local, 3}, {stint.Deny, 0}, {stint.Allow, 0}} {
		share := int64(0)
		policy, local := store.takes[i].OnFailure()
		if local != nil {
			share = local.Capacity()
		}
		if policy != want.policy || share != want.share {
			t.Errorf("take %d: %v with a share of %d, want %+v", i, policy, share, want)
		}
	}
	if a := v.Asked[1]; !v.Degraded || a.Over || a.Limit != 3 || a.Remaining != 2 {
		t.Errorf("soft: %+v", a.Decision)
	}
	// Each refund contains the degraded decision that it undoes.
	if err := l.Undo(ctx, &v); err != nil {
		t.Fatal(err)
	}
	for _, take := range store.takes {
		if take.Op != stint.Refund || take.Undo == nil || !take.Undo.Degraded {
			t.Errorf("undone by %+v", take)
		}
	}
	req := describe(1)
	req.Descriptors, req.OnFailure = []Descriptor{{Cost: 1}}, stint.Deny
	err := l.DecideInline(ctx, "a", rules.Rules()[0].Limit, req, &v)
	if policy, _ := store.takes[0].OnFailure(); err != nil || policy != stint.Deny {
		t.Errorf("%v, %v", policy, err)
	}
}
