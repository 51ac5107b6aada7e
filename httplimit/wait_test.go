package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/limiter/line"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// waitRules let each user pass ten times a second, one by one, and lets what is over wait.
const waitRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: users, requests: 10, per: 1s, algorithm: token_bucket, burst: 1, excess: {mode: wait, max_wait: 5s, places: 100, places_per_key: 40}}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
`

// gate is a handler behind limits inside a bubble of synctest, and its answers.
type gate struct {
	t       *testing.T
	limiter *limiter.Limiter
	handler http.Handler
	began   time.Time

	group sync.WaitGroup
	mu    sync.Mutex
	left  []string // NAME STATUS TIME of each answer, in order
}

// newGate must be called inside a bubble.
func newGate(t *testing.T, file string, o httplimit.Options) *gate {
	t.Helper()
	l := newLimiter(t, memory.New(memory.Options{Clock: wallClock}), file)
	return &gate{t: t, limiter: l, handler: httplimit.New(l, "api", o)(ok), began: time.Now()}
}

// send sends a request in the background, until it waits or has its answer.
func (g *gate) send(name string, r *http.Request) {
	g.group.Go(func() {
		w := send(g.handler, r)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.left = append(g.left, fmt.Sprintf("%s %d %v", name, w.Code, time.Since(g.began)))
	})
	synctest.Wait()
}

// user sends a request of a user.
func (g *gate) user(name string, header ...string) {
	g.send(name, request("192.0.2.1:1", "/", append([]string{"X-User", name}, header...)...))
}

// expect waits for all answers and compares them.
func (g *gate) expect(want ...string) {
	g.t.Helper()
	g.group.Wait()
	g.expectNow(want...)
}

// expectNow compares the answers until now.
func (g *gate) expectNow(want ...string) {
	g.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.left, want) {
		g.t.Errorf("answers:\n%s\nwant\n%s", strings.Join(g.left, "\n"), strings.Join(want, "\n"))
	}
}

// waits returns how many requests wait for a rule.
func (g *gate) waits(rule string) int64 {
	for _, s := range g.limiter.Lines().Stats() {
		if s.Rule == rule {
			return s.Waiting
		}
	}
	return 0
}

// The requests of a key leave in their order and at the rate of the limit.
func TestWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		var want []string
		for i := range 41 {
			g.send(fmt.Sprint(i), request("192.0.2.1:1", "/", "X-User", "bob"))
			want = append(want, fmt.Sprintf("%d 200 %v", i, time.Duration(i)*100*time.Millisecond))
		}
		if n := g.waits("users"); n != 40 {
			t.Errorf("%d requests wait, want 40", n)
		}
		g.expect(want...)
	})
}

// A cheap request does not overtake a costly one, for which the limit has no room yet.
func TestWaitOfCostlyRequests(t *testing.T) {
	file := strings.Replace(waitRules, "burst: 1,", "burst: 5,", 1)
	file = strings.Replace(file, "- actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]",
		"- {actions: [{request_headers: {header_name: x-user, descriptor_key: user}}], cost: {header: x-cost}}", 1)
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, file, httplimit.Options{})
		g.send("first", request("192.0.2.1:1", "/", "X-User", "bob", "X-Cost", "5"))
		g.send("costly", request("192.0.2.1:1", "/", "X-User", "bob", "X-Cost", "5"))
		time.Sleep(250 * time.Millisecond)
		g.send("cheap", request("192.0.2.1:1", "/", "X-User", "bob", "X-Cost", "1"))
		g.expect("first 200 0s", "costly 200 500ms", "cheap 200 600ms")
	})
}

// A long line of one key delays no other key.
func TestWaitIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		for range 30 {
			g.send("bob", request("192.0.2.1:1", "/", "X-User", "bob"))
		}
		g.user("eve")
		g.user("eve")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if g.mu.Lock(); !slices.Contains(g.left, "eve 200 100ms") {
			t.Errorf("eve waits behind bob: %v", g.left)
		}
		g.mu.Unlock()
		g.group.Wait()
	})
}

// Who finds no place, or would wait too long, is answered at once.
func TestWaitFull(t *testing.T) {
	for _, tt := range []struct{ name, excess, accept, want string }{
		{"places of a key", "{mode: wait, places_per_key: 2}", "", `
429
Cache-Control: no-store
Content-Type: application/json
Retry-After: 1
X-Policy: "users"

{"error":{"code":"excess_full","message":"Too many requests wait already. Wait 1 second and try again.","context":{}}}`},
		{"places of the rule", "{mode: wait, places: 2, full: 503}", "", `
503
Cache-Control: no-store
Content-Type: application/json
Retry-After: 1
X-Policy: "users"

{"error":{"code":"excess_full","message":"Too many requests wait already. Wait 1 second and try again.","context":{}}}`},
		{"too late", "{mode: wait, max_wait: 250ms, full: 503}", "application/problem+json", `
503
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 1
X-Policy: "users"

{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Too many requests wait already. Wait 1 second and try again.","code":"excess_full"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := strings.Replace(waitRules, "{mode: wait, max_wait: 5s, places: 100, places_per_key: 40}", tt.excess, 1)
				g := newGate(t, file, httplimit.Options{PolicyHeader: "X-Policy"})
				g.user("bob")
				g.user("bob")
				g.user("bob")
				expect(t, "no place", dump(get(g.handler, "192.0.2.1:1", "/", "X-User", "bob", "Accept", tt.accept)), tt.want)
				g.expect("bob 200 0s", "bob 200 100ms", "bob 200 200ms")
			})
		})
	}
}

// gRPC callers without a place get the status of gRPC for theirs.
func TestWaitFullOfGRPC(t *testing.T) {
	for full, want := range map[string]string{"429": "8", "503": "14"} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, strings.Replace(waitRules, "places_per_key: 40", "places_per_key: 1, full: "+full, 1), httplimit.Options{})
			g.user("bob")
			g.user("bob")
			r := request("192.0.2.1:1", "/", "X-User", "bob", "Content-Type", "application/grpc")
			r.Method = http.MethodPost
			if w := send(g.handler, r); w.Code != http.StatusOK || w.Header().Get("Grpc-Status") != want || field(w, "Retry-After") != "1" {
				t.Errorf("full: %s: %d, %v", full, w.Code, w.Header())
			}
			g.group.Wait()
		})
	}
}

// A client that disconnects frees its place at once; nobody behind it takes early.
func TestWaitGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		g.user("bob")
		ctx, cancel := context.WithCancel(t.Context())
		g.send("gone", request("192.0.2.1:1", "/", "X-User", "bob").WithContext(ctx))
		g.user("bob")
		time.Sleep(50 * time.Millisecond)
		cancel()
		g.expectNow("bob 200 0s", "gone 499 50ms")
		if n := g.waits("users"); n != 1 {
			t.Errorf("%d requests wait, want 1", n)
		}
		g.expect("bob 200 0s", "gone 499 50ms", "bob 200 100ms")
	})
}

// A request whose context has a deadline is answered while there is somebody to answer.
func TestWaitDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		g.user("bob")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		g.send("timeout", request("192.0.2.1:1", "/", "X-User", "bob").WithContext(ctx))
		g.expect("bob 200 0s", "timeout 429 50ms")
	})
}

// A drain answers all that wait.
func TestWaitDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		g.user("bob")
		g.user("bob")
		g.user("bob")
		time.Sleep(time.Millisecond)
		g.limiter.Lines().Drain()
		g.expect("bob 200 0s", "bob 503 1ms", "bob 503 1ms")
		expect(t, "while the server drains", dump(get(g.handler, "192.0.2.1:1", "/", "X-User", "bob")), `
503
Cache-Control: no-store
Content-Type: application/json
Retry-After: 1

{"error":{"code":"excess_full","message":"The server shuts down. Wait 1 second and try again.","context":{}}}`)
	})
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// beside are limits of other kinds beside one that lets requests wait.
const beside = `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {name: users, requests: 10, per: 1s, algorithm: token_bucket, burst: 1, excess: wait}
      - {name: daily, requests: 100, per: 1d}
      - {name: failures, requests: 100, per: 1d, algorithm: token_bucket, count: responses, statuses: [5xx]}
  - key: shadow
    shadow_mode: true
    rate_limit: {name: shadow, requests: 100, per: 1d}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{request_headers: {header_name: x-user, descriptor_key: shadow}}]
`

// remaining returns what remains of each limit of a user.
func (g *gate) remaining(user string) string {
	g.t.Helper()
	var v limiter.Verdict
	err := g.limiter.Decide(g.t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{
		{Entries: []rule.Entry{{Key: "user", Value: user}}}, {Entries: []rule.Entry{{Key: "shadow", Value: user}}},
	}}, &v)
	if err != nil {
		g.t.Fatal(err)
	}
	text := ""
	for i := range v.Asked {
		text += fmt.Sprintf(" %s=%d", v.Asked[i].Rule.Name, v.Asked[i].Remaining)
	}
	return text
}

// Nothing is charged while a request waits: not by limits beside its own, not by those in shadow mode,
// not by those that count responses. Its body is not read. When it passes each limit is charged once.
func TestWaitChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, beside, httplimit.Options{})
		var status atomic.Int64
		status.Store(http.StatusInternalServerError)
		g.handler = httplimit.New(g.limiter, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
		g.user("bob")
		const after = " users=0 daily=99 failures=99 shadow=99"
		if got := g.remaining("bob"); got != after {
			t.Errorf("after the first request%s", got)
		}
		for range 3 {
			r := request("192.0.2.1:1", "/", "X-User", "bob")
			r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(unread{t}), 10
			g.send("bob", r)
		}
		if got := g.remaining("bob"); got != after {
			t.Errorf("while three wait%s", got)
		}
		status.Store(http.StatusOK)
		time.Sleep(150 * time.Millisecond) // one of them passed, and another asked again
		synctest.Wait()
		if got := g.remaining("bob"); got != " users=0 daily=98 failures=99 shadow=98" {
			t.Errorf("after one of them passed%s", got)
		}
		g.expect("bob 500 0s", "bob 200 100ms", "bob 200 200ms", "bob 200 300ms")
		if got := g.remaining("bob"); got != " users=0 daily=96 failures=99 shadow=96" {
			t.Errorf("after all passed%s", got)
		}
	})
}

// If a limit denies whose excess is dropped, the request is denied at once: also if others wait already
// for the limit that lets requests wait.
func TestDropBeforeWait(t *testing.T) {
	file := strings.Replace(beside, "name: daily, requests: 100", "name: daily, requests: 2", 1)
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, file, httplimit.Options{})
		g.user("bob")
		g.user("bob")
		time.Sleep(50 * time.Millisecond)
		g.user("bob") // it waits: the daily limit has room for one, which nobody took yet
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		expect(t, "both limits deny", field(get(g.handler, "192.0.2.1:1", "/", "X-User", "bob"), "RateLimit"), `"daily";r=0;t=86400, "users";r=0;t=1, "failures";r=100`)
		g.expect("bob 200 0s", "bob 200 100ms", "bob 429 200ms")
	})
}

// both is a file with a limit of users and a limit of all, which both let requests wait.
const both = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: users, requests: 1, per: 1s, algorithm: token_bucket, burst: 1, excess: wait}
  - key: all
    rate_limit: {name: all, requests: 10, per: 1s, algorithm: token_bucket, burst: 1, excess: wait}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{generic_key: {descriptor_key: all, descriptor_value: all}}]
`

// Users who wait for their own limit do not fill the line of the limit of all: each comes there at its
// own rate, and takes turns with others.
func TestWaitForTwoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, both, httplimit.Options{})
		for range 3 {
			g.user("bob")
		}
		for range 2 {
			g.user("eve")
		}
		if users, all := g.waits("users"), g.waits("all"); users != 2 || all != 2 {
			t.Errorf("%d wait for their own limit, %d for that of all", users, all)
		}
		g.expect("bob 200 0s", "eve 200 100ms", "bob 200 1s", "eve 200 1.1s", "bob 200 2s")
	})
}

// A request that waits is decided by the rules that are in force when it is its turn.
func TestWaitOverReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		g.user("bob")
		g.user("bob")
		g.user("bob")
		time.Sleep(10 * time.Millisecond)
		table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(strings.Replace(waitRules, "requests: 10, per: 1s", "requests: 1, per: 1s", 1))})
		if err != nil {
			t.Fatal(err)
		}
		g.limiter.Swap(table)
		g.expect("bob 200 0s", "bob 200 100ms", "bob 200 1.1s")
	})
}

// A client that goes on where there is no place is penalized; one that waits is not.
func TestWaitAndPenalty(t *testing.T) {
	file := strings.Replace(waitRules, "places_per_key: 40}", "places_per_key: 1}, penalty: {after: 2, ladder: [1h]}", 1)
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, file, httplimit.Options{})
		for range 5 {
			g.user("bob")
			g.user("bob")
			time.Sleep(200 * time.Millisecond)
		}
		g.group.Wait()
		g.left, g.began = nil, time.Now()
		for range 5 {
			g.user("eve")
		}
		if w := get(g.handler, "192.0.2.1:1", "/", "X-User", "eve"); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"penalized"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		g.expect("eve 200 0s", "eve 429 0s", "eve 429 0s", "eve 429 0s", "eve 429 100ms")
	})
}

// The two phases of a request wait as one: what the first took is given back while the second waits.
func TestWaitOfTwoPhases(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: addresses, requests: 100, per: 1d}
  - key: user
    rate_limit: {name: users, requests: 10, per: 1s, algorithm: token_bucket, burst: 1, excess: wait}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{identity: {}}]
`
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, file, httplimit.Options{})
		late := httplimit.New(g.limiter, "api", httplimit.Options{Identity: func(r *http.Request) string { return r.Header.Get("X-User") }})
		g.handler = httplimit.New(g.limiter, "api", httplimit.Options{Phase: httplimit.Early})(late(ok))
		left := func() int64 {
			var v limiter.Verdict
			request := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}}
			if err := g.limiter.Decide(t.Context(), &request, &v); err != nil {
				t.Fatal(err)
			}
			return v.Remaining
		}
		g.user("bob")
		g.user("bob")
		g.user("bob")
		if n := left(); n != 99 {
			t.Errorf("while two wait %d are left of the address", n)
		}
		g.expect("bob 200 0s", "bob 200 100ms", "bob 200 200ms")
		if n := left(); n != 97 {
			t.Errorf("in the end %d are left of the address", n)
		}
	})
}

// Where nobody waits for a limit, and no limit has an excess, nothing is looked up.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, waitRules, httplimit.Options{})
		g.user("bob")
		g.user("bob")
		g.expect("bob 200 0s", "bob 200 100ms")
		want := line.Stats{Domain: "api", Rule: "users", Entered: 1, Waited: 100 * time.Millisecond}
		want.Left[line.Passed] = 1
		if got := g.limiter.Lines().Stats(); len(got) != 1 || got[0] != want || g.limiter.Lines().Any() {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
