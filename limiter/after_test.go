package limiter

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// logins returns rules with a limit of five wrong passwords under an algorithm.
func logins(algorithm string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: user
    rate_limit: {per: 15m, requests: 5, algorithm: %s, count: responses, statuses: [401]}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 100}
`, algorithm)
}

var counting = []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"}

// TestSettle: a limit that counts responses stays charged for a status that it counts, and is
// refunded for any other. Limits that count requests stay charged in both cases.
func TestSettle(t *testing.T) {
	for _, algorithm := range counting {
		l := newLimiter(t, logins(algorithm), nil)
		var v, look Verdict
		for i, step := range []struct {
			status     int
			user, team int64 // remaining
		}{{401, 4, 99}, {200, 4, 98}, {500, 4, 97}, {401, 3, 96}, {0, 3, 95}, {401, 2, 94}, {401, 1, 93}, {401, 0, 92}} {
			req := describe(1, "user", "a", "team", "b")
			req.Answers = true
			if err := l.Decide(ctx, req, &v); err != nil || !v.Allowed || !v.Reserved() {
				t.Fatalf("%s, step %d: %+v, reserved %v, %v", algorithm, i, v.Decision, v.Reserved(), err)
			}
			for range 2 {
				if err := l.Settle(ctx, &v, step.status); err != nil || v.Reserved() {
					t.Fatal(v.Reserved(), err)
				}
				if err := l.Undo(ctx, &v); err != nil { // a settled decision is not undone
					t.Fatal(err)
				}
			}
			if err := l.Decide(ctx, describe(0, "user", "a", "team", "b"), &look); err != nil {
				t.Fatal(err)
			}
			if user, team := look.Results[0].Remaining, look.Results[1].Remaining; user != step.user || team != step.team {
				t.Errorf("%s, step %d: %d and %d remaining, want %+v", algorithm, i, user, team, step)
			}
		}
		req := describe(1, "user", "a", "team", "b")
		req.Answers = true
		if err := l.Decide(ctx, req, &v); err != nil || v.Allowed || v.Reserved() || v.Rule.Name != "api/user" {
			t.Errorf("%s: the sixth: %+v, reserved %v, %v", algorithm, v.Decision, v.Reserved(), err)
		}
	}
}

// TestSettleParallel: of two hundred guesses at once no more than five are allowed, however long
// their responses take.
func TestSettleParallel(t *testing.T) {
	for _, algorithm := range counting {
		l := newLimiter(t, logins(algorithm), nil)
		var passed atomic.Int64
		var asked, done sync.WaitGroup
		asked.Add(200)
		for range 200 {
			done.Go(func() {
				var v Verdict
				req := describe(1, "user", "a")
				req.Answers = true
				err := l.Decide(ctx, req, &v)
				asked.Done()
				asked.Wait() // no response comes before all requests were decided
				if err != nil || !v.Allowed {
					return
				}
				passed.Add(1)
				if err := l.Settle(ctx, &v, 401); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if passed.Load() != 5 {
			t.Errorf("%s: %d guesses passed, want 5", algorithm, passed.Load())
		}
	}
}

// TestSettleUnseen: if the caller will not see the response, every request is charged at once, and
// the bucket refills as usual.
func TestSettleUnseen(t *testing.T) {
	for _, algorithm := range counting {
		later := now
		l := New(memoryAt(&later), table(t, logins(algorithm)), Options{})
		run(t, l, []step{
			{describe(4, "user", "a"), true, "api/user", 1, "a"},
			{describe(1, "user", "a"), true, "api/user", 0, "a"},
			{describe(1, "user", "a"), false, "api/user", 0, "d"},
		})
		later = now.Add(2 * 15 * time.Minute)
		run(t, l, []step{{describe(0, "user", "a"), true, "api/user", 5, "a"}})
	}
}

// TestSettleTwoOfAKey: a request with two descriptors for one key is settled for both.
func TestSettleTwoOfAKey(t *testing.T) {
	for _, algorithm := range counting {
		l := newLimiter(t, logins(algorithm), nil)
		for _, c := range []struct {
			status int
			left   int64
		}{{200, 5}, {401, 3}} {
			var v Verdict
			req := describe(1, "user", "a", "user", "a")
			req.Answers = true
			if err := l.Decide(ctx, req, &v); err != nil {
				t.Fatal(err)
			}
			if err := l.Settle(ctx, &v, c.status); err != nil {
				t.Fatal(err)
			}
			run(t, l, []step{{describe(0, "user", "a"), true, "api/user", c.left, "a"}})
		}
	}
}

func memoryAt(at *stint.Instant) stint.Store {
	return memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return *at }})
}
