package gate

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"stint"
	"stint/gateway/queue"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 2, per: 10s, algorithm: token_bucket}
  - key: never
    rate_limit: {requests: 0, per: 1s}
  - key: failures
    rate_limit: {requests: 1, per: 1h, count: responses, statuses: [5xx]}
  - key: slow
    rate_limit: {requests: 1, per: 1s, algorithm: leaky_bucket, burst: 5}
deny:
  - {header: X-Device, values: [stolen]}
  - {cidrs: [203.0.113.0/24]}
`

type away struct{}

func (away) Decide(context.Context, *stint.Call) error { return errors.New("away") }

func table(t *testing.T) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	return table
}

func record(key string, cost uint32) *queue.Record {
	return &queue.Record{
		Method: http.MethodPost, URI: "/orders?a=1", Host: "example.com", Header: http.Header{}, Domain: "api",
		Descriptors: []queue.Descriptor{{Entries: []queue.Pair{{Key: key, Value: "a"}}, Cost: cost}}, Client: netip.MustParseAddr("192.0.2.1"),
	}
}

// open reports whether a record may be sent at once, without a reservation.
func open(a queue.Admission) bool {
	return a.Refused == "" && a.Wait == 0 && a.Delay == 0 && a.Settle == nil
}

// A record takes its cost from the limits as its request did, and waits for the retry time.
func TestTakes(t *testing.T) {
	now := stint.Instant(1e15)
	l := limiter.New(memory.New(memory.Options{Clock: func() stint.Instant { return now }}), table(t), limiter.Options{})
	g := &Gate{Limiter: func(string) *limiter.Limiter { return l }}
	ask := func(r *queue.Record) queue.Admission {
		t.Helper()
		a, err := g.Ask(t.Context(), r)
		testkit.Must(t, err)
		return a
	}
	if a := ask(record("user", 2)); !open(a) {
		t.Errorf("the first: %+v", a)
	}
	if a := ask(record("user", 1)); a.Wait != 5*time.Second {
		t.Errorf("the second: %+v", a)
	}
	if a := ask(record("user", 3)); a.Refused == "" {
		t.Errorf("more than ever: %+v", a)
	}
	if a := ask(record("never", 1)); a.Refused == "" {
		t.Errorf("never: %+v", a)
	}
	ask(record("slow", 1))
	if a := ask(record("slow", 1)); a.Delay != time.Second {
		t.Errorf("slow: %+v", a)
	}
	if a := ask(record("unlimited", 1)); !open(a) {
		t.Errorf("no limit: %+v", a)
	}
	for _, status := range []int{200, 0} { // the first is given back
		a := ask(record("failures", 1))
		if a.Settle == nil {
			t.Fatalf("status %d: %+v", status, a)
		}
		a.Settle(status)
	}
	if a := ask(record("failures", 1)); a.Wait == 0 {
		t.Errorf("after a failure: %+v", a)
	}
}

// Lists and the validity of the key are asked again.
func TestRefused(t *testing.T) {
	l := limiter.New(memory.New(memory.Options{}), table(t), limiter.Options{})
	valid, fault := true, error(nil)
	g := &Gate{
		Limiter: func(string) *limiter.Limiter { return l },
		Valid:   func(context.Context, *queue.Record) (bool, error) { return valid, fault },
	}
	banned, stolen, keyed := record("user", 1), record("user", 1), record("user", 1)
	banned.Client = netip.MustParseAddr("203.0.113.7")
	stolen.Header.Set("X-Device", "stolen")
	keyed.Credential = "key 7"
	for name, r := range map[string]*queue.Record{"address": banned, "header": stolen} {
		if a, err := g.Ask(t.Context(), r); a.Refused != "denied" || err != nil {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if a, err := g.Ask(t.Context(), keyed); !open(a) || err != nil {
		t.Errorf("a valid key: %+v, %v", a, err)
	}
	valid = false
	if a, err := g.Ask(t.Context(), keyed); a.Refused == "" || err != nil {
		t.Errorf("a revoked key: %+v, %v", a, err)
	}
	fault = errors.New("no records")
	if _, err := g.Ask(t.Context(), keyed); !errors.Is(err, fault) {
		t.Errorf("a fault: %v", err)
	}
}

// Records wait while nothing can be decided.
func TestAway(t *testing.T) {
	g := &Gate{Limiter: func(string) *limiter.Limiter { return nil }}
	if a, err := g.Ask(t.Context(), record("user", 1)); a.Wait == 0 || err != nil {
		t.Errorf("no limiter: %+v, %v", a, err)
	}
	l := limiter.New(away{}, table(t), limiter.Options{})
	g.Limiter = func(string) *limiter.Limiter { return l }
	if a, err := g.Ask(t.Context(), record("user", 1)); err == nil {
		t.Errorf("no store: %+v", a)
	}
}
