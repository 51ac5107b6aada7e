package response

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

type byRule struct{}

func (byRule) Name(a *limiter.Asked) (string, *stint.Limit) { return a.Rule.Name, a.Rule.Limit }

const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 2, on_store_failure: deny}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1, on_store_failure: deny}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 1, headers: draft03}
  - key: queue
    rate_limit: {per: 10s, requests: 10, algorithm: leaky_bucket, burst: 9}
`

// decide asks the rules of all keys for the value 1.
func decide(t *testing.T, l *limiter.Limiter, keys ...string) *limiter.Verdict {
	t.Helper()
	req, v := limiter.Request{Domain: "api"}, new(limiter.Verdict)
	for _, key := range keys {
		req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: "1"}}, Cost: 1})
	}
	if err := l.Decide(context.Background(), &req, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func newLimiter(t *testing.T) *limiter.Limiter {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	clock := func() stint.Instant { return stint.At(time.Now()) }
	return limiter.New(memory.New(memory.Options{Budget: 1, Clock: clock}), table, limiter.Options{})
}

// A client is told of the limits that may deny it, each with its presets, and which
// one did. A limit in shadow mode leaves no trace.
func TestPolicies(t *testing.T) {
	l := newLimiter(t)
	for _, want := range []int{-1, 1} {
		v := decide(t, l, "user", "shadow", "team")
		policies, denied := Policies(nil, v, web.IETF, byRule{})
		if len(policies) != 2 || denied != want {
			t.Fatalf("%d policies, %d denied, want 2 and %d", len(policies), denied, want)
		}
		if policies[0].Name != "api/user" || policies[0].Presets != web.IETF ||
			policies[1].Name != "api/team" || policies[1].Presets != web.Draft03 {
			t.Errorf("policies are %+v", policies)
		}
	}
}

// A delayed request is held to the end of its delay; one that ends before is told
// how much is left, and its place is free again.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t)
		decide(t, l, "queue")
		began := time.Now()
		left, err := Delay(context.Background(), l, decide(t, l, "queue"))
		if held := time.Since(began); left != 0 || err != nil || held != time.Second {
			t.Errorf("held %v, left %v, %v", held, left, err)
		}

		v := decide(t, l, "queue")
		policies, _ := Policies(nil, v, web.IETF, byRule{})
		gone, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		time.AfterFunc(400*time.Millisecond, cancel) // the client hangs up
		left, err = Delay(gone, l, v)
		if left != 600*time.Millisecond || err != nil {
			t.Errorf("left %v, %v", left, err)
		}
		if denied := DenyDelayed(policies, v, left); denied != 0 || v.Allowed || v.Rule.Name != "api/queue" || policies[0].Allowed || policies[0].RetryAfter != left {
			t.Errorf("turned away by %d: %+v", denied, policies[0])
		}
		if v := decide(t, l, "queue"); v.Delay != 600*time.Millisecond {
			t.Errorf("the place was not given back: the next waits %v", v.Delay)
		}
	})
}

// Of several limits it is the one with the delay that turns a request away.
func TestTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t)
		decide(t, l, "queue")
		v := decide(t, l, "user", "queue")
		policies, _ := Policies(nil, v, web.IETF, byRule{})
		if v.Rule.Name != "api/user" || v.Delay != time.Second {
			t.Fatalf("delayed %v, nearest is %s", v.Delay, v.Rule.Name)
		}
		if denied := DenyDelayed(policies, v, v.Delay); denied != 1 || v.Rule.Name != "api/queue" || v.RetryAfter != time.Second {
			t.Errorf("turned away by %d, %s, for %v", denied, v.Rule.Name, v.RetryAfter)
		}
	})
}
