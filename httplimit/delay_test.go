package httplimit_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/httplimit"
	"stint/rule"
	"stint/store/memory"
)

// tenths lets one request pass every 100 ms, while nine wait.
var tenths = stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 9})

// wallClock is the time inside a bubble of synctest.
func wallClock() stint.Instant { return stint.At(time.Now()) }

// standing returns a clock that stands still, so that all requests arrive at the same time even on
// a busy machine.
func standing() func() stint.Instant {
	now := wallClock()
	return func() stint.Instant { return now }
}

// Requests pass 100 ms apart, in order of arrival; a request without room in the queue is denied at
// once.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{Clock: wallClock})
		h := httplimit.Limit(store, tenths, httplimit.Options{})(ok)
		begun := time.Now()
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				w := get(h, "192.0.2.1:1", "/")
				took := time.Since(begun)
				if i < 10 && (w.Code != http.StatusOK || took != time.Duration(i)*100*time.Millisecond) {
					t.Errorf("request %d: status %d after %v", i, w.Code, took)
				}
				if i >= 10 && (w.Code != http.StatusTooManyRequests || took != 0 || w.Header().Get("Retry-After") != "1") {
					t.Errorf("request %d: status %d after %v, Retry-After: %s", i, w.Code, took, w.Header().Get("Retry-After"))
				}
			})
			synctest.Wait() // until it waits or has its answer
		}
		group.Wait()
	})
}

// The same with real requests, which all arrive at the same time of the limit's clock: ten are
// allowed, none earlier than its place in the queue permits, and ten are refused.
func TestDelayOfRealRequests(t *testing.T) {
	type answer struct {
		status int
		at     time.Time
		n      int
	}
	var order atomic.Int64 // order in which requests reach the limit
	limit := httplimit.Limit(memory.New(memory.Options{Clock: standing()}), tenths, httplimit.Options{})
	var arriving sync.Mutex // held until the request has its place, so that order is the order of the queue
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arriving.Lock()
		w.Header().Set("X-Order", string(rune('a'+order.Add(1)-1)))
		unlock := sync.OnceFunc(arriving.Unlock)
		defer unlock()
		// The middleware takes its place before it first calls Done of the context.
		limit(ok).ServeHTTP(w, r.WithContext(waiting{r.Context(), unlock}))
	}))
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 20
	answers := make(chan answer, 20)
	begun := time.Now()
	for range 20 {
		go func() {
			r, err := client.Get(server.URL)
			if err != nil {
				t.Error(err)
				answers <- answer{}
				return
			}
			r.Body.Close()
			answers <- answer{r.StatusCode, time.Now(), int(r.Header.Get("X-Order")[0] - 'a')}
		}()
	}
	var passed []answer
	for range 20 {
		switch a := <-answers; {
		case a.status == http.StatusOK:
			passed = append(passed, a)
		case a.status != http.StatusTooManyRequests:
			t.Errorf("a refusal has status %d, want 429", a.status)
		}
	}
	slices.SortFunc(passed, func(a, b answer) int { return cmp.Compare(a.n, b.n) })
	if len(passed) != 10 {
		t.Fatalf("%d passed, want 10", len(passed))
	}
	for i, a := range passed {
		// On a busy machine an answer may be late, but never early.
		if after, due := a.at.Sub(begun), time.Duration(i)*100*time.Millisecond; after < due {
			t.Errorf("answer %d came after %v, want %v", i, after, due)
		}
	}
}

// waiting is a context that calls a function when Done is first called.
type waiting struct {
	context.Context
	do func()
}

func (w waiting) Done() <-chan struct{} {
	w.do()
	return w.Context.Done()
}

// If a client disconnects while it waits, its handler is not called and its units are given back.
// The next client takes the place, except in the middle of the queue, where the place stays unused.
func TestClientGoesAway(t *testing.T) {
	for _, test := range []struct {
		name string
		gone int           // index of the client, of three, that disconnects
		next time.Duration // when a fourth client, which arrives later, passes
	}{
		{"the last", 2, 200 * time.Millisecond},
		{"one in the middle", 1, 300 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var served atomic.Int32
				store := memory.New(memory.Options{Clock: wallClock})
				h := httplimit.Limit(store, tenths, httplimit.Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
				begun := time.Now()
				var group sync.WaitGroup
				for i := range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					group.Go(func() {
						w := send(h, request("192.0.2.1:1", "/").WithContext(ctx))
						if i == test.gone && w.Code != http.StatusTooManyRequests {
							t.Errorf("request %d has status %d", i, w.Code)
						}
						cancel()
					})
					synctest.Wait()
					if i == test.gone {
						defer cancel()
						time.AfterFunc(50*time.Millisecond, cancel)
					}
				}
				time.Sleep(60 * time.Millisecond) // fake time: until it has disconnected
				if w := get(h, "192.0.2.1:1", "/"); w.Code != http.StatusOK {
					t.Errorf("the fourth has status %d", w.Code)
				}
				if took := time.Since(begun); took != test.next {
					t.Errorf("the fourth left after %v, want %v", took, test.next)
				}
				group.Wait()
				if n := served.Load(); n != 3 {
					t.Errorf("%d were served, want 3", n)
				}
			})
		})
	}
}

// A request whose deadline is too early is denied at once and takes no place.
func TestDelayBeyondDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time0 := time.Now()
		h := httplimit.Limit(memory.New(memory.Options{Clock: wallClock}), tenths, httplimit.Options{Headers: []rule.Preset{rule.IETF}})(ok)
		get(h, "192.0.2.1:1", "/")
		ctx, cancel := context.WithTimeout(t.Context(), 99*time.Millisecond)
		defer cancel()
		w := send(h, request("192.0.2.1:1", "/").WithContext(ctx))
		if took := time.Since(time0); w.Code != http.StatusTooManyRequests || took != 0 {
			t.Errorf("status %d after %v, want 429 at once", w.Code, took)
		}
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After: %s, want 1", got)
		}
		get(h, "192.0.2.1:1", "/")
		if took := time.Since(time0); took != 100*time.Millisecond {
			t.Errorf("the next left after %v, want 100ms", took)
		}
	})
}

// stuck is a store that takes units but fails to give them back.
type stuck struct{ stint.Store }

func (s stuck) Decide(ctx context.Context, call *stint.Call) error {
	if call.Takes[0].Op == stint.Refund {
		return errBroken
	}
	return s.Store.Decide(ctx, call)
}

// OnError is called if units cannot be given back.
func TestUndoFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		h := httplimit.Limit(stuck{memory.New(memory.Options{Clock: wallClock})}, tenths, httplimit.Options{
			OnError: func(_ *http.Request, err error) { told = err },
		})(ok)
		get(h, "192.0.2.1:1", "/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		send(h, request("192.0.2.1:1", "/").WithContext(ctx))
		if !errors.Is(told, errBroken) {
			t.Errorf("told of %v, want the store's error", told)
		}
	})
}

// A real client that disconnects while it waits is not served, and gives its place back.
func TestRealClientHangsUp(t *testing.T) {
	served := make(chan string, 3)
	h := httplimit.Limit(memory.New(memory.Options{Clock: standing()}), stint.MustLimit(stint.Spec{
		Algorithm: stint.LeakyBucket, Requests: 1, Per: 2 * time.Second, Burst: 1,
	}), httplimit.Options{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.URL.Path }))
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.URL.Path == "/gone" {
			close(ended)
		}
	}))
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/first")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-ended
	answer, err = server.Client().Get(server.URL + "/next") // possible only if the place is free
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if first, second := <-served, <-served; answer.StatusCode != http.StatusOK || first != "/first" || second != "/next" {
		t.Errorf("served %s and %s, the next with status %d", first, second, answer.StatusCode)
	}
}
