package limiter

import (
	"testing"

	"stint"
	"stint/rule"
	"stint/store/memory"
)

// TestLive: takes of limits that count responses, of elastic limits, and refunds set Handling.Live,
// so that no deny cache remembers them. Others, the pool among them, do not.
func TestLive(t *testing.T) {
	live := func(v *Verdict) (all []bool) {
		for i := range v.call.Takes {
			all = append(all, v.call.Takes[i].Live())
		}
		return all
	}
	expect := func(what string, got []bool, want ...bool) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
	var v Verdict
	l := newLimiter(t, logins("fixed_window"), nil)
	req := describe(1, "user", "a", "team", "b")
	req.Answers = true
	if err := l.Decide(ctx, req, &v); err != nil {
		t.Fatal(err)
	}
	expect("counting answers, and not", live(&v), true, false)
	if err := l.Settle(ctx, &v, 200); err != nil {
		t.Fatal(err)
	}
	expect("giving back", live(&Verdict{call: v.after}), true)

	rules := table(t, pooled)
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	l = New(store, elastic(t, rules, rule.Elastic{Pool: rules.Rules()[1]}), Options{})
	if err := l.Decide(ctx, describe(1, "user", "a"), &v); err != nil {
		t.Fatal(err)
	}
	expect("own, cap and pool", live(&v), true, true, false)
}
