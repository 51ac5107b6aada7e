package limits_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"stint/internal/testkit"
)

const keySite = `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		records DIR/records.db
		queue DIR/queue.db
	}
}
http://ADDRESS {
	stint_keys *
	stint api
	reverse_proxy UPSTREAM
}
`

// slowOrders let one order pass in 2 s.
var slowOrders = strings.Replace(orders, "per: 200ms", "per: 2s", 1)

// post sends an order with header fields.
func (g *gateway) post(body string, fields ...string) reply {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), http.MethodPost, "http://"+g.address+"/shop/orders", strings.NewReader(body))
	testkit.Must(g.T, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return g.do(r)
}

// state returns what operators see of a queued order.
func (g *gateway) state(location string) string {
	g.T.Helper()
	return g.ask(http.MethodGet, "/stint"+strings.TrimPrefix(location, "/.stint"), "").body
}

// An order whose key is revoked while it waits is refused, and never sent; that of another key is.
func TestQueueRevokedKey(t *testing.T) {
	upstream := newShop(t)
	g := start(t, strings.Replace(keySite, "UPSTREAM", upstream.Listener.Addr().String(), 1), map[string]string{"rules.yaml": slowOrders})
	key := func(subject string) (one struct{ Key, Hash string }) {
		t.Helper()
		a := g.ask(http.MethodPost, "/stint/v1/keys", `{"subject": "`+subject+`", "prefix": "shop"}`)
		if err := json.Unmarshal([]byte(a.body), &one); err != nil || one.Key == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return one
	}
	good, bad := key("user=1"), key("user=2")
	for _, one := range []string{good.Key, bad.Key} {
		if a := g.post("first", "X-Api-Key", one); a.status != http.StatusCreated {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	kept, lost := g.post("good", "X-Api-Key", good.Key), g.post("bad", "X-Api-Key", bad.Key)
	if kept.status != http.StatusAccepted || lost.status != http.StatusAccepted {
		t.Fatalf("%d and %d, want 202", kept.status, lost.status)
	}
	if a := g.ask(http.MethodPost, "/stint/v1/keys/"+bad.Hash+"/revoke", "{}"); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var state string
	testkit.Until(t, "the order of the revoked key is refused", func() bool {
		state = g.state(lost.header.Get("Location"))
		return strings.Contains(state, `"failed"`)
	})
	if !strings.Contains(state, "the key is not valid any more") {
		t.Errorf("the reason: %s", state)
	}
	if a := g.outcome(kept.header.Get("Location"), "X-Api-Key", good.Key); a.status != http.StatusCreated || len(upstream.got("good")) != 1 {
		t.Errorf("the status of the other order: %d %s", a.status, a.body)
	}
	if a := g.get(lost.header.Get("Location"), "X-Api-Key", bad.Key); a.status != http.StatusUnauthorized {
		t.Errorf("the status with a revoked key: %d %s", a.status, a.body)
	}
	if n := len(upstream.got("bad")); n != 0 {
		t.Errorf("the order of a revoked key was sent %d times", n)
	}
	g.Await("queued requests reach the upstream without the name of their client")
}

// Without authentication stint_early queues by address, and nobody else sees the order.
func TestQueueEarly(t *testing.T) {
	upstream := newShop(t)
	g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		queue DIR/queue.db
	}
}
http://ADDRESS {
	stint_early api
	reverse_proxy `+upstream.Listener.Addr().String()+`
}
`, map[string]string{"rules.yaml": strings.NewReplacer("key: user", "key: remote_address", "identity", "remote_address").Replace(orders)})
	if a := g.post("first"); a.status != http.StatusCreated {
		t.Fatalf("the first: %d", a.status)
	}
	second := g.post("second")
	if second.status != http.StatusAccepted {
		t.Fatalf("the second: %d", second.status)
	}
	path := second.header.Get("Location")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.address+path, http.NoBody)
	testkit.Must(t, err)
	if a := g.doFrom("127.0.0.2", r); a.status != http.StatusNotFound {
		t.Errorf("for another address: %d", a.status)
	}
	if a := g.outcome(path); a.status != http.StatusCreated || len(upstream.got("second")) != 1 {
		t.Errorf("the outcome: %d %s", a.status, a.body)
	}
	if strings.Contains(g.Log.String(), "without the name of their client") {
		t.Error("a route without authentication has no names to lose")
	}
}

// A reload with another place of the queue leaves the records in the old one, and says how many.
func TestQueueMoved(t *testing.T) {
	upstream := newShop(t)
	upstream.status = http.StatusServiceUnavailable
	g := startQueue(t, "DIR/queue.db", upstream)
	g.order("ann", "first")
	for _, body := range []string{"second", "third"} {
		if r := g.order("ann", body); r.status != http.StatusAccepted {
			t.Fatalf("%s: %d", body, r.status)
		}
	}
	before := g.Read("Caddyfile")
	g.load(strings.Replace(before, "queue.db", "other.db", 1))
	g.Await("the queue has another place now: this gateway does not send the requests in the old one")
	if log := g.Log.String(); !strings.Contains(log, `"requests":2`) || !strings.Contains(log, g.Dir+`/queue.db"`) {
		t.Errorf("the log:\n%s", log)
	}
	upstream.mu.Lock()
	upstream.status, upstream.orders = 0, nil
	upstream.mu.Unlock()
	g.load(before)
	for _, body := range []string{"second", "third"} {
		testkit.Until(t, body+" arrives", func() bool { return len(upstream.got(body)) == 1 })
	}
}

// Limits that queue deny without a queue, and the log says so, also where only another plan than the default one
// queues.
func TestQueueMissing(t *testing.T) {
	const plans = `
domain: api
plans:
  free: {orders: {requests: 1, per: 1h}}
  pro: {orders: {requests: 5, per: 1h, excess: queue}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: orders}}]
http: {rate_limits: [{actions: [{identity: {}}]}]}
`
	for _, rules := range []string{orders, plans} {
		g := start(t, "{\n\tGLOBAL\n\tstint {\n\t\trules DIR/rules.yaml\n\t}\n}\nhttp://ADDRESS {\n\tstint api\n\trespond ok\n}\n", map[string]string{"rules.yaml": rules})
		g.Await("there is no queue: limits with excess: queue deny")
	}
}
