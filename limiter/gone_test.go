package limiter

import (
	"context"
	"testing"

	"stint"
	"stint/store/memory"
)

// leaving is a store like one behind a network: it decides nothing when the context has ended. If leave is set,
// the caller leaves with the next call.
type leaving struct {
	stint.Store
	leave context.CancelFunc
}

func (s *leaving) Decide(ctx context.Context, call *stint.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.leave != nil {
		defer s.leave()
	}
	return s.Store.Decide(ctx, call)
}

// TestCallerGone: what a request took is given back also if its client leaves before that.
func TestCallerGone(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 100}
  - key: login
    rate_limit: {per: 1h, requests: 100, count: responses, statuses: [401]}
  - key: debts
    rate_limit: {per: 1h, requests: 5, algorithm: token_bucket, overdraw: true}
`
	for name, test := range map[string]struct {
		req *Request
		end func(context.Context, *Limiter, *Verdict) error
	}{
		"undone":  {describe(1, "team", "a"), func(ctx context.Context, l *Limiter, v *Verdict) error { return l.Undo(ctx, v) }},
		"settled": {describe(1, "login", "a"), func(ctx context.Context, l *Limiter, v *Verdict) error { return l.Settle(ctx, v, 200) }},
		"debt":    {describe(1, "team", "a", "debts", "a"), func(context.Context, *Limiter, *Verdict) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			store := &leaving{Store: memory.New(memory.Options{})}
			l := New(store, table(t, rules), Options{})
			var v Verdict
			if err := l.Decide(ctx, describe(9, "debts", "a"), &v); err != nil {
				t.Fatal(err)
			}
			gone, leave := context.WithCancel(t.Context())
			store.leave = leave
			test.req.Answers, test.req.Debt = true, true
			if n := len(test.req.Descriptors); n > 1 {
				test.req.Descriptors[n-1].Cost = 0
			}
			if err := l.Decide(gone, test.req, &v); err != nil || v.Allowed != (name != "debt") {
				t.Fatalf("%+v, %v", v.Decision, err)
			}
			store.leave = nil
			if err := test.end(gone, l, &v); err != nil {
				t.Error(err)
			}
			look := &Request{Domain: "api", Descriptors: test.req.Descriptors[:1]}
			look.Descriptors[0].Cost = 0
			if err := l.Decide(ctx, look, &v); err != nil || v.Remaining != 100 {
				t.Errorf("%d remain, want 100; %v", v.Remaining, err)
			}
		})
	}
}
