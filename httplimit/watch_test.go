package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
)

// counting returns a limit of five responses in 15 minutes for each address.
func counting(algorithm, statuses string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: remote_address
    rate_limit: {per: 15m, requests: 5, algorithm: %s, count: responses, statuses: [%s]}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`, algorithm, statuses)
}

// undoable are the algorithms that can count responses.
var undoable = []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"}

// left returns the remaining units of an address.
func left(t testing.TB, l *limiter.Limiter, address string) int64 {
	t.Helper()
	var v limiter.Verdict
	look := &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "remote_address", Value: address}}}}}
	if err := l.Decide(t.Context(), look, &v); err != nil {
		t.Fatal(err)
	}
	return v.Results[0].Remaining
}

// Of two hundred concurrent wrong guesses five reach the handler, however slow it is; a right guess
// gives its unit back.
func TestGuesses(t *testing.T) {
	for _, algorithm := range undoable {
		t.Run(algorithm, func(t *testing.T) {
			time := clock{1767225600_000_000}
			l := newLimiter(t, time.store(), counting(algorithm, "401"))
			var reached, refused atomic.Int64
			allRefused := make(chan struct{})
			login := httplimit.New(l, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/right" {
					return
				}
				reached.Add(1)
				<-allRefused
				w.WriteHeader(http.StatusUnauthorized)
			}))
			for range 20 {
				if w := get(login, "192.0.2.1:1", "/right"); w.Code != 200 || field(w, "X-RateLimit-Remaining") != "4" {
					t.Fatalf("a right password is answered with %s", dump(w))
				}
			}
			var group sync.WaitGroup
			for range 200 {
				group.Go(func() {
					if get(login, "192.0.2.1:1", "/wrong").Code == http.StatusTooManyRequests && refused.Add(1) == 195 {
						close(allRefused)
					}
				})
			}
			group.Wait()
			if reached.Load() != 5 || refused.Load() != 195 {
				t.Errorf("%d guesses reached the handler and %d were refused, want 5 and 195", reached.Load(), refused.Load())
			}
			if w := get(login, "192.0.2.1:1", "/right"); w.Code != http.StatusTooManyRequests {
				t.Errorf("the next is answered with status %d, want 429", w.Code)
			}
			if w := get(login, "192.0.2.2:1", "/right"); w.Code != http.StatusOK {
				t.Errorf("another address is answered with status %d, want 200", w.Code)
			}
		})
	}
}

// The status that counts, for all ways in which a handler can answer.
func TestSettledStatus(t *testing.T) {
	status := func(codes ...int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, code := range codes {
				w.WriteHeader(code)
			}
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    int // 0: no status counts except 599
	}{
		"a status":            {status(401), 401},
		"none":                {status(), 200},
		"no body":             {status(204), 204},
		"the first counts":    {status(401, 200, 500), 401},
		"early hints":         {status(103, 401), 401},
		"early hints alone":   {status(103), 200},
		"switching protocols": {status(101), 101},
		"a body":              {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a")) }, 200},
		"a text":              {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a") }, 200},
		"body, then status": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(nil)
			w.WriteHeader(401)
		}, 200},
		"a file": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("a"))
			w.WriteHeader(401)
		}, 200},
		"an empty file is no answer yet": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
			w.WriteHeader(401)
		}, 401},
		"flushed": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(401)
		}, 200},
		"flushed by a controller": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(401)
		}, 200},
		"hijacking that fails": {func(w http.ResponseWriter, _ *http.Request) {
			_, _, _ = http.NewResponseController(w).Hijack()
			w.WriteHeader(401)
		}, 401},
		"a panic":                 {func(http.ResponseWriter, *http.Request) { panic("oh") }, 500},
		"a panic after the start": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); panic("oh") }, 401},
		"no such status":          {status(0), 500},
		"no status at all":        {status(1000), 500},
		"aborted":                 {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			for _, one := range []struct {
				statuses string
				left     int64
			}{{fmt.Sprint(test.want), 4}, {fmt.Sprintf("100-%d, %d-599", test.want-1, test.want+1), 5}} {
				time := clock{1767225600_000_000}
				l := newLimiter(t, time.store(), counting("token_bucket", one.statuses))
				h := httplimit.New(l, "api", httplimit.Options{})(test.handler)
				func() {
					defer func() {
						panics := strings.HasPrefix(name, "a panic") || name == "aborted" || strings.HasPrefix(name, "no s")
						if (recover() != nil) != panics {
							t.Error("whether the handler panics is not seen outside")
						}
					}()
					get(h, "192.0.2.1:1", "/")
				}()
				if got := left(t, l, "192.0.2.1"); got != one.left {
					t.Errorf("where %s counts %d are left, want %d", one.statuses, got, one.left)
				}
			}
		})
	}
}

// If the client disconnects, the handler's answer still counts, and the call to the store does not
// end with the request.
func TestSettledWithoutClient(t *testing.T) {
	for status, want := range map[int]int64{401: 4, 200: 5} {
		time := clock{1767225600_000_000}
		l := newLimiter(t, checksDeadline{t, time.store()}, counting("token_bucket", "401"))
		r := request("192.0.2.1:1", "/")
		ctx, leave := context.WithCancel(r.Context())
		h := httplimit.New(l, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			leave()
			w.WriteHeader(status)
		}))
		send(h, r.WithContext(ctx))
		if got := left(t, l, "192.0.2.1"); got != want {
			t.Errorf("after status %d %d are left, want %d", status, got, want)
		}
	}
}

// checksDeadline is a store that checks that Settle has a deadline and is not canceled.
type checksDeadline struct {
	t *testing.T
	stint.Store
}

func (p checksDeadline) Decide(ctx context.Context, c *stint.Call) error {
	if c.Takes[0].Op != stint.Ask {
		if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) > time.Second {
			p.t.Errorf("settled by a context with %v, deadline %v", ctx.Err(), deadline)
		}
	}
	return p.Store.Decide(ctx, c)
}

// failsToSettle is a store that fails to settle.
type failsToSettle struct {
	stint.Store
	asked *atomic.Int64 // number of Settle calls
}

func (f failsToSettle) Decide(ctx context.Context, c *stint.Call) error {
	if c.Takes[0].Op != stint.Ask {
		f.asked.Add(1)
		return errBroken
	}
	return f.Store.Decide(ctx, c)
}

// If the store fails to settle, the units stay charged, OnError is called once, and the client gets
// its answer.
func TestSettlingFails(t *testing.T) {
	time := clock{1767225600_000_000}
	store := failsToSettle{time.store(), new(atomic.Int64)}
	l := newLimiter(t, store, counting("token_bucket", "401"))
	var told []error
	h := httplimit.New(l, "api", httplimit.Options{
		OnError: func(_ *http.Request, err error) { told = append(told, err) },
	})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "welcome")
	}))
	w := get(h, "192.0.2.1:1", "/")
	if w.Code != http.StatusAccepted || w.Body.String() != "welcome" {
		t.Errorf("answered with %s", dump(w))
	}
	if len(told) != 1 || !errors.Is(told[0], errBroken) || store.asked.Load() != 1 {
		t.Errorf("told of %v, after %d attempts", told, store.asked.Load())
	}
	if got := left(t, l, "192.0.2.1"); got != 4 {
		t.Errorf("%d are left, want 4", got)
	}
}

// A refusal by one limit counts as a response for limits that are decided independently.
func TestSettledRefusal(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    shadow_mode: true
    rate_limit: {per: 15m, requests: 5, count: responses, statuses: [%s]}
  - key: path
    rate_limit: {per: 15m, requests: 0}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
`
	for statuses, want := range map[string]int64{"429": 4, "200": 5, "418": 5} {
		time := clock{1767225600_000_000}
		l := newLimiter(t, time.store(), fmt.Sprintf(file, statuses))
		if w := get(httplimit.New(l, "api", httplimit.Options{})(ok), "192.0.2.1:1", "/"); w.Code != 429 || w.Body.Len() == 0 {
			t.Errorf("answered with %s", dump(w))
		}
		if got := left(t, l, "192.0.2.1"); got != want {
			t.Errorf("where %s counts %d are left, want %d", statuses, got, want)
		}
	}
}

// When a client receives an answer that is not counted, its unit is already available again.
func TestPlaceIsBackInTime(t *testing.T) {
	file := strings.Replace(counting("token_bucket", "4xx"), "requests: 5", "requests: 1", 1)
	time := clock{1767225600_000_000}
	l := newLimiter(t, time.store(), file)
	server := httptest.NewServer(httplimit.New(l, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})))
	defer server.Close()
	for i := range 200 {
		path := "/"
		if i%2 == 1 {
			path = "/stream"
		}
		answer, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("request %d is answered with status %d, want 200", i, answer.StatusCode)
		}
	}
}

// wrapped is the writer of another middleware; it has only Unwrap.
type wrapped struct{ inner http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.inner.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.inner.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.inner.WriteHeader(status) }
func (w wrapped) Unwrap() http.ResponseWriter { return w.inner }

// opaque is a writer without Unwrap.
type opaque struct{ http.ResponseWriter }

// The handler gets a writer that supports everything that the server's supports; if no limit counts
// responses it is the server's writer.
func TestWatchedWriter(t *testing.T) {
	for _, test := range []struct {
		name                     string
		http2                    bool
		wrap                     func(http.ResponseWriter) http.ResponseWriter
		flushes, hijacks, pushes bool
	}{
		{"HTTP/1", false, nil, true, true, false},
		{"HTTP/2", true, nil, true, false, true},
		{"wrapped HTTP/1", false, func(w http.ResponseWriter) http.ResponseWriter { return wrapped{w} }, true, true, false},
		{"wrapped HTTP/2", true, func(w http.ResponseWriter) http.ResponseWriter { return wrapped{w} }, true, false, true},
		{"opaque", false, func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} }, false, false, false},
		{"recorder", false, func(http.ResponseWriter) http.ResponseWriter { return httptest.NewRecorder() }, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			time := clock{1767225600_000_000}
			l := newLimiter(t, time.store(), counting("token_bucket", "401"))
			inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, flushes := w.(http.Flusher)
				_, hijacks := w.(http.Hijacker)
				_, pushes := w.(http.Pusher)
				if flushes != test.flushes || hijacks != test.hijacks || pushes != test.pushes {
					t.Errorf("flushes %v, hijacks %v, pushes %v: want %v, %v, %v", flushes, hijacks, pushes, test.flushes, test.hijacks, test.pushes)
				}
				if test.flushes && test.name != "recorder" {
					if err := http.NewResponseController(w).SetWriteDeadline(deadline()); err != nil {
						t.Errorf("a controller cannot set a deadline: %v", err)
					}
				}
				if pusher, ok := w.(http.Pusher); ok {
					if err := pusher.Push("/a", nil); !errors.Is(err, http.ErrNotSupported) { // net/http's client refuses pushes
						t.Errorf("pushing: %v", err)
					}
				}
				n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("a", 2000)))
				if n != 2000 || err != nil {
					t.Errorf("sent %d bytes, %v", n, err)
				}
			})
			limit := httplimit.New(l, "api", httplimit.Options{})(inner)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.wrap != nil {
					w = test.wrap(w)
				}
				limit.ServeHTTP(w, r)
			}))
			server.EnableHTTP2 = test.http2
			server.StartTLS()
			defer server.Close()
			answer, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || test.name != "recorder" && len(body) != 2000 || answer.ProtoMajor == 2 != test.http2 {
				t.Errorf("%s: read %d bytes, %v", answer.Proto, len(body), err)
			}
		})
	}
}

// deadline returns a time after the end of any test.
func deadline() time.Time { return time.Now().Add(time.Hour) }

// A hijacked connection counts as 101, whatever is sent on it.
func TestHijackIsSettled(t *testing.T) {
	for statuses, want := range map[string]int64{"101": 4, "200-599": 5} {
		time := clock{1767225600_000_000}
		l := newLimiter(t, time.store(), counting("token_bucket", statuses))
		server := httptest.NewServer(httplimit.New(l, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			conn.Close()
		})))
		answer, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		server.Close()
		if got := left(t, l, "127.0.0.1"); got != want {
			t.Errorf("where %s counts %d are left, want %d", statuses, got, want)
		}
	}
}

// A writer that a handler keeps does not affect later requests.
func TestWriterIsKept(t *testing.T) {
	time := clock{1767225600_000_000}
	l := newLimiter(t, time.store(), counting("token_bucket", "401"))
	var kept http.ResponseWriter
	h := httplimit.New(l, "api", httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if kept != nil {
			kept.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		kept = w
	}))
	for range 5 {
		get(h, "192.0.2.1:1", "/")
	}
	if got := left(t, l, "192.0.2.1"); got != 1 {
		t.Errorf("%d are left, want 1", got)
	}
}
