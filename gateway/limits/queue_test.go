package limits_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stint/internal/testkit"
)

const orders = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: orders, requests: 1, per: 200ms, algorithm: token_bucket, excess: {mode: queue, places: 20, tries: 3}}
http:
  rate_limits:
    - actions: [{identity: {}}]
`

const queueSite = `
{
	GLOBAL
	metrics
	stint {
		rules DIR/rules.yaml
		queue QUEUE
		queue_key_file DIR/keys
		queue_identity_key_file DIR/identity
		workers 4
	}
}
http://ADDRESS {
	basic_auth * {
		ann ` + hash + `
		bob ` + hash + `
	}
	stint api
	handle_path /shop/* {
		header X-Shop yes
		reverse_proxy UPSTREAM
	}
	handle {
		respond "not the shop" 404
	}
}
`

const identityKey = "a secret of 32 bytes or a bit more"

// shop is an upstream that records orders.
type shop struct {
	*httptest.Server
	mu     sync.Mutex
	orders []order
	status int // of answers; 0 means 201
}

type order struct {
	path, body, key, identity, secret, forwarded string
}

func newShop(t *testing.T) *shop {
	s := new(shop)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP takes an order.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, order{
		r.URL.RequestURI(), string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Stint-Identity"),
		r.Header.Get("Authorization") + r.Header.Get("Cookie"), r.Header.Get("X-Forwarded-For"),
	})
	w.Header().Set("Set-Cookie", "basket=1")
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "order %d: %s", len(s.orders), body)
}

// got returns the orders with a body.
func (s *shop) got(body string) (list []order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.body == body {
			list = append(list, o)
		}
	}
	return list
}

func startQueue(t *testing.T, storage string, upstream *shop) *gateway {
	t.Helper()
	text := strings.NewReplacer("QUEUE", storage, "UPSTREAM", upstream.Listener.Addr().String()).Replace(queueSite)
	return start(t, text, map[string]string{
		"rules.yaml": orders, "keys": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "identity": identityKey + "\n",
	})
}

// order sends an order of a user.
func (g *gateway) order(user, body string) reply {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), http.MethodPost, "http://"+g.address+"/shop/orders?a=1", strings.NewReader(body))
	testkit.Must(g.T, err)
	r.SetBasicAuth(user, "secret")
	r.Header.Set("Cookie", "session=1")
	return g.do(r)
}

// fromAnn are the header fields of an order's client.
var fromAnn = []string{":user", "ann:secret"}

// outcome waits until a status resource has another state than waiting.
func (g *gateway) outcome(path string, fields ...string) (r reply) {
	g.T.Helper()
	testkit.Until(g.T, "the order has an outcome", func() bool {
		r = g.get(path, fields...)
		state := r.header.Get("Stint-Queue-State")
		return state != "waiting" && state != "claimed"
	})
	return r
}

// An order over the limit gets 202, is sent by the handlers behind stint with a signed identity, and its
// client, nobody else, gets the answer.
func TestQueue(t *testing.T) {
	for name, storage := range map[string]func(t *testing.T) string{
		"file":  func(*testing.T) string { return "DIR/queue.db" },
		"redis": func(t *testing.T) string { return testkit.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			upstream := newShop(t)
			g := startQueue(t, storage(t), upstream)
			if r := g.order("ann", "first"); r.status != http.StatusCreated {
				t.Fatalf("the first: %d %s", r.status, r.body)
			}
			second := g.order("ann", "second")
			path := second.header.Get("Location")
			var told struct{ ID, State string }
			if err := json.Unmarshal([]byte(second.body), &told); err != nil || second.status != http.StatusAccepted || told.State != "waiting" || path != "/.stint/queue/"+told.ID ||
				second.header.Get("Retry-After") == "" {
				t.Fatalf("the second: %d %v %s", second.status, second.header, second.body)
			}
			if r := g.get(path, ":user", "bob:secret"); r.status != http.StatusNotFound {
				t.Errorf("another user: %d %s", r.status, r.body)
			}
			if r := g.get(path); r.status != http.StatusUnauthorized {
				t.Errorf("nobody: %d %s", r.status, r.body)
			}
			r := g.outcome(path, fromAnn...)
			if r.status != http.StatusCreated || !strings.HasSuffix(r.body, ": second") || r.header.Get("X-Shop") != "yes" || r.header.Get("Set-Cookie") != "" {
				t.Errorf("the outcome: %d %v %s", r.status, r.header, r.body)
			}
			got := upstream.got("second")
			if len(got) != 1 {
				t.Fatalf("the shop got %+v", got)
			}
			var claims jwt.RegisteredClaims
			_, err := jwt.ParseWithClaims(got[0].identity, &claims, func(*jwt.Token) (any, error) { return []byte(identityKey), nil }, jwt.WithValidMethods([]string{"HS256"}))
			if o := got[0]; err != nil || claims.Subject != "ann" || o.path != "/orders?a=1" || o.key != told.ID || o.secret != "" || o.forwarded != "127.0.0.1" {
				t.Errorf("the shop got %+v (%v): %v", o, claims, err)
			}
			metrics := g.ask(http.MethodGet, "/metrics", "").body
			for _, want := range []string{"stint_queue_up 1", "stint_queue_delivered_total 1", `stint_queue_kept{rule="api: orders"} 1`} {
				if !strings.Contains(metrics, want) {
					t.Errorf("no %s in the metrics", want)
				}
			}
		})
	}
}

// A body that is no HTTP gets 400, and a client that goes away in the middle of its body nothing, also where the
// queue holds orders before it. Neither is queued, and neither is an error of the gateway.
func TestQueueBadBody(t *testing.T) {
	upstream := newShop(t)
	upstream.status = http.StatusServiceUnavailable // orders stay in the queue
	text := strings.NewReplacer("QUEUE", "DIR/queue.db", "UPSTREAM", upstream.Listener.Addr().String(), "http://ADDRESS {", "http://ADDRESS {\n\tlog").Replace(queueSite)
	g := start(t, text, map[string]string{"rules.yaml": orders, "keys": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "identity": identityKey + "\n"})
	g.order("ann", "first")
	if r := g.order("ann", "second"); r.status != http.StatusAccepted {
		t.Fatalf("%+v", r)
	}
	head := "POST /shop/orders HTTP/1.1\r\nHost: " + g.address + "\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n"
	dial := func(request string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", g.address)
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Write([]byte(request))
		testkit.Must(t, err)
		return c
	}
	wrong := dial(head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(wrong), nil)
	testkit.Must(t, err)
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"code":"bad_body"`) {
		t.Errorf("a wrong chunk: %d %s", resp.StatusCode, body)
	}
	dial(head + "Content-Length: 100\r\n\r\nabc").Close()
	g.Await(`"status":499`)
	if list := g.ask(http.MethodGet, "/stint/queue", "").body; strings.Count(list, `"rule"`) != 1 {
		t.Errorf("the queue: %s", list)
	}
	for line := range strings.Lines(g.Log.String()) {
		if strings.Contains(line, "no decision") || strings.Contains(line, "cannot queue") {
			t.Error(line)
		}
	}
}

// Access log and placeholders name the rule and the verdict of an order that is queued, and the gateway does
// not call its rules a mistake.
func TestQueueShows(t *testing.T) {
	upstream := newShop(t)
	text := strings.NewReplacer("QUEUE", "DIR/queue.db", "UPSTREAM", upstream.Listener.Addr().String(),
		"http://ADDRESS {", "http://ADDRESS {\n\tlog {\n\t\toutput file DIR/access.log\n\t}\n\theader >X-Decided \"{http.stint.rule} {http.stint.verdict}\"").Replace(queueSite)
	g := start(t, text, map[string]string{"rules.yaml": orders, "keys": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "identity": identityKey + "\n"})
	g.order("ann", "first")
	if r := g.order("ann", "second"); r.status != http.StatusAccepted || r.header.Get("X-Decided") != "orders queued" {
		t.Errorf("%d %v", r.status, r.header)
	}
	g.Stop()
	if log := g.Read("access.log"); !strings.Contains(log, `"stint":{"rule":"orders","verdict":"queued"}`) {
		t.Errorf("the access log:\n%s", log)
	}
	if log := g.Log.String(); strings.Contains(log, "likely mistake") {
		t.Errorf("the log:\n%s", log)
	}
}

// The command asks the running gateway. A dead order can be sent again.
func TestQueueCommand(t *testing.T) {
	upstream := newShop(t)
	upstream.status = http.StatusServiceUnavailable
	g := startQueue(t, "DIR/queue.db", upstream)
	g.order("ann", "first")
	path := g.order("ann", "second").header.Get("Location")
	id := strings.TrimPrefix(path, "/.stint/queue/")
	if r := g.outcome(path, fromAnn...); r.status != http.StatusServiceUnavailable || r.header.Get("Stint-Queue-State") != "dead" {
		t.Fatalf("after three tries: %d %v", r.status, r.header)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := g.Command(append(append([]string{"queue"}, args...), "--queue", "queue.db", "--address", g.admin)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("list", "--state", "dead"); !strings.Contains(out, id) || !strings.Contains(out, "503") {
		t.Errorf("list printed\n%s", out)
	}
	if out := run("show", id); !strings.Contains(out, "POST /shop/orders?a=1") || !strings.Contains(out, "second") || !strings.Contains(out, "ann") {
		t.Errorf("show printed\n%s", out)
	}
	upstream.mu.Lock()
	upstream.status = 0
	upstream.mu.Unlock()
	run("retry", id)
	if r := g.outcome(path, fromAnn...); r.status != http.StatusCreated {
		t.Errorf("after the retry: %d %s", r.status, r.body)
	}
	run("drop", id)
	if r := g.get(path, ":user", "ann:secret"); r.status != http.StatusNotFound {
		t.Errorf("after the drop: %d", r.status)
	}
}

// A gateway that is killed sends its orders when it runs again, before any request comes.
func TestQueueKilled(t *testing.T) {
	upstream := newShop(t)
	g := startQueue(t, "DIR/queue.db", upstream)
	var paths []string
	for n := range 6 {
		r := g.order("ann", fmt.Sprint("order ", n))
		if r.status == http.StatusAccepted {
			paths = append(paths, r.header.Get("Location"))
		}
	}
	if len(paths) == 0 {
		t.Fatal("nothing was queued")
	}
	testkit.Must(t, g.Process.Kill())
	<-g.Ended
	g.Run()
	for n := range 6 {
		body := fmt.Sprint("order ", n)
		testkit.Until(t, body+" arrives", func() bool { return len(upstream.got(body)) > 0 })
	}
	for _, path := range paths {
		if r := g.outcome(path, fromAnn...); r.status != http.StatusCreated {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

// After a reload the queue goes on, with the handlers of the new configuration.
func TestQueueReloaded(t *testing.T) {
	before, after := newShop(t), newShop(t)
	before.status = http.StatusServiceUnavailable
	g := startQueue(t, "DIR/queue.db", before)
	g.order("ann", "first")
	path := g.order("ann", "second").header.Get("Location")
	testkit.Until(t, "the first try", func() bool { return len(before.got("second")) > 0 })
	text := strings.ReplaceAll(g.Read("Caddyfile"), before.Listener.Addr().String(), after.Listener.Addr().String())
	g.Write("Caddyfile", strings.Replace(text, "workers 4", "workers 2", 1))
	if out, err := g.reload(); err != nil {
		t.Fatal(out)
	}
	if r := g.outcome(path, fromAnn...); r.status != http.StatusCreated || len(after.got("second")) != 1 {
		t.Errorf("after the reload: %d %s", r.status, r.body)
	}
	g.Write("Caddyfile", strings.Replace(text, "workers 4", "workers no", 1))
	if out, err := g.reload(); err == nil || !strings.Contains(out, "workers") {
		t.Errorf("a wrong word: %v\n%s", err, out)
	}
	r := g.order("ann", "third")
	for n := 0; r.status != http.StatusAccepted && n < 20; n++ {
		r = g.order("ann", "third")
	}
	if r := g.outcome(r.header.Get("Location"), fromAnn...); r.status != http.StatusCreated {
		t.Errorf("after the refused reload: %d %s", r.status, r.body)
	}
}

// An order that waits for a limit is sent when a change of the rules allows it.
func TestQueueRelaxed(t *testing.T) {
	upstream := newShop(t)
	g := startQueue(t, "DIR/queue.db", upstream)
	strict := strings.Replace(orders, "per: 200ms", "per: 2h", 1)
	g.Write("rules.yaml", strict)
	g.Await("files changed")
	testkit.Until(t, "an order is queued", func() bool { return g.order("ann", "first").status == http.StatusAccepted })
	path := g.order("ann", "second").header.Get("Location")
	if r := g.get(path, fromAnn...); r.header.Get("Stint-Queue-State") != "waiting" {
		t.Fatalf("%+v", r)
	}
	g.Write("rules.yaml", orders)
	if r := g.outcome(path, fromAnn...); r.status != http.StatusCreated {
		t.Errorf("after the change: %+v", r)
	}
}

// A line outlives the process, and gateways of one Redis share it, also where each counts in memory: while a key
// has an order in the queue, its next one comes behind it, though the limit has room.
func TestQueueLines(t *testing.T) {
	for name, storage := range map[string]func() string{
		"a file": func() string { return "DIR/queue.db" },
		"redis":  func() string { return testkit.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			upstream := newShop(t)
			upstream.status = http.StatusServiceUnavailable
			where := storage()
			g := startQueue(t, where, upstream)
			for n := 0; g.order("ann", "first").status != http.StatusAccepted; n++ {
				if n == 20 {
					t.Fatal("no order was queued")
				}
			}
			if name == "redis" {
				g = startQueue(t, where, upstream)
			} else {
				testkit.Must(t, g.Process.Kill())
				<-g.Ended
				g.Run()
			}
			if r := g.order("ann", "second"); r.status != http.StatusAccepted {
				t.Errorf("an order overtook: %d %s", r.status, r.body)
			}
			if r := g.order("bob", "another line"); r.status != http.StatusServiceUnavailable {
				t.Errorf("bob: %d %s", r.status, r.body)
			}
		})
	}
}

// Wrong settings of the queue are refused in one line, with a hint.
func TestBadQueue(t *testing.T) {
	g := newGateway(t, map[string]string{"rules.yaml": orders, "short": "abc\n", "good": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"})
	for words, want := range map[string]string{
		"queue":                                  "queue takes one value; hint: write queue FILE",
		"queue a b":                              "queue takes one value",
		"queue a\nqueue b":                       "queue is given twice",
		"workers 3":                              "settings of a queue without a queue",
		"queue a\nworkers 0":                     "hint: write 1 to 1000",
		"queue a\nworker maybe":                  "hint: write worker on",
		"queue a\nworker none":                   "worker none with a file",
		"queue redis://":                         "hint: ",
		"queue a\nqueue_key_file DIR/none":       "no such file",
		"queue a\nqueue_key_file DIR/short":      "line 1: not a key",
		"queue a\nqueue_identity_key_file short": "a key of 3 bytes",
	} {
		g.Write("Caddyfile", "{\n\tGLOBAL\n\tstint {\n\t\trules rules.yaml\n\t\t"+words+"\n\t}\n}\nhttp://ADDRESS {\n\tstint api\n}\n")
		out, err := g.Command("validate", "--config", "Caddyfile").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "Caddyfile:") {
			t.Errorf("%q: %v, want %q in\n%s", words, err, want, out)
		}
	}
}

// Two gateways cannot share a file.
func TestQueueInUse(t *testing.T) {
	upstream := newShop(t)
	g := startQueue(t, "DIR/queue.db", upstream)
	other := newGateway(t, map[string]string{"rules.yaml": orders, "keys": g.Read("keys"), "identity": g.Read("identity")})
	other.Write("Caddyfile", strings.NewReplacer("QUEUE", g.Dir+"/queue.db", "UPSTREAM", upstream.Listener.Addr().String()).Replace(queueSite))
	began := time.Now()
	out, err := other.Command("run", "--config", "Caddyfile").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another process") || !strings.Contains(string(out), "two gateways cannot share a file") {
		t.Errorf("%v after %v\n%s", err, time.Since(began), out)
	}
}
