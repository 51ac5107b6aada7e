package pace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/pace"
	"stint/store/memory"
)

// serve runs a server in fake time and returns a client that reaches it under any host name through
// a Transport.
func serve(t *testing.T, handler http.HandlerFunc, limit *stint.Limit, options pace.TransportOptions) *http.Client {
	p := testkit.NewPipes()
	server := &http.Server{Handler: handler}
	ended := make(chan error)
	go func() { ended <- server.Serve(p) }()
	options.Base = &http.Transport{DialContext: p.DialContext, MaxIdleConnsPerHost: 100}
	store := clockStore()
	client := &http.Client{Transport: pace.NewTransport(store, limit, options)}
	t.Cleanup(func() {
		synctest.Wait() // until no connection is being opened
		client.CloseIdleConnections()
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return client
}

// clockStore returns a store with fake time.
func clockStore() *memory.Store {
	return memory.New(memory.Options{Clock: func() stint.Instant { return stint.At(time.Now()) }})
}

// get sends a request and returns the status, or 0 and the error.
func get(ctx context.Context, client *http.Client, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// log records the times at which requests reach a server.
type log struct {
	begun time.Time
	mu    sync.Mutex
	at    map[string][]time.Duration
}

func (l *log) note(r *http.Request) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[string][]time.Duration{}
	}
	l.at[r.Host] = append(l.at[r.Host], time.Since(l.begun))
	return len(l.at[r.Host])
}

func (l *log) check(t *testing.T, host string, want ...time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.at[host], want) {
		t.Errorf("requests reached %s at %v, want %v", host, l.at[host], want)
	}
}

// Each host has its own limit, which goroutines share.
func TestLimitPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := log{begun: time.Now()}
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 2})
		client := serve(t, func(_ http.ResponseWriter, r *http.Request) { l.note(r) }, limit, pace.TransportOptions{})
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				if status, err := get(t.Context(), client, []string{"http://a/", "http://B/"}[i%2]); status != 200 {
					t.Error(status, err)
				}
			})
		}
		group.Wait()
		l.check(t, "a", 0, 0, time.Second, 2*time.Second)
		l.check(t, "B", 0, 0, time.Second, 2*time.Second)
	})
}

// The key may depend on any part of the request; a request without a key is not limited.
func TestLimitByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := log{begun: time.Now()}
		client := serve(t, func(_ http.ResponseWriter, r *http.Request) { l.note(r) }, stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute}),
			pace.TransportOptions{Key: func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }})
		for _, path := range []string{"", "", "x", "y", ""} {
			if status, err := get(t.Context(), client, "http://a/"+path); status != 200 {
				t.Error(status, err)
			}
		}
		l.check(t, "a", 0, 0, 0, 0, 0)
		begun := time.Now()
		_, err := get(deadline(t, 59*time.Second), client, "http://b/x")
		if !errors.Is(err, pace.ErrTooLate) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 0 {
			t.Errorf("%v after %v, want a refusal at once", err, time.Since(begun))
		}
		l.check(t, "b")
	})
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A refusal with Retry-After pauses all callers of that host, and of no other.
func TestRetryAfterPausesAll(t *testing.T) {
	for _, retry := range []func() string{
		func() string { return "3" },
		func() string { return time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := log{begun: time.Now()}
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if l.note(r) == 1 && r.Host == "a" {
					w.Header().Set("Retry-After", retry())
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}, nil, pace.TransportOptions{})
			if status, err := get(t.Context(), client, "http://a/"); status != 429 {
				t.Error(status, err)
			}
			var group sync.WaitGroup
			for i := range 6 {
				group.Go(func() {
					if status, err := get(t.Context(), client, []string{"http://a/", "http://b/"}[i%2]); status != 200 {
						t.Error(status, err)
					}
				})
			}
			group.Wait()
			l.check(t, "a", 0, 3*time.Second, 3*time.Second, 3*time.Second)
			l.check(t, "b", 0, 0, 0)
		})
	}
}

// All callers share the remaining requests of a server, less the requests under way.
func TestBudgetOfServer(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(h http.Header, left int, reset time.Duration)
	}{
		{"ietf", func(h http.Header, left int, reset time.Duration) {
			h.Set("RateLimit", fmt.Sprintf(`"ten";r=%d;t=%d`, left, reset/time.Second))
		}},
		{"legacy", func(h http.Header, left int, reset time.Duration) {
			h.Set("X-RateLimit-Remaining", fmt.Sprint(left))
			h.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(reset).Unix()))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var mu sync.Mutex
				used := map[int]int{} // requests in each window of ten seconds
				var refused int
				client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(50 * time.Millisecond) // fake time
					mu.Lock()
					defer mu.Unlock()
					since := time.Since(begun)
					window := int(since / (10 * time.Second))
					if used[window]++; used[window] > 5 {
						refused++
						w.WriteHeader(http.StatusTooManyRequests)
					}
					// Whole seconds, rounded up, as in the header fields.
					reset := (time.Duration(window+1)*10*time.Second - since + time.Second - 1).Truncate(time.Second)
					test.write(w.Header(), max(0, 5-used[window]), reset)
				}, nil, pace.TransportOptions{})
				if status, err := get(t.Context(), client, "http://a/"); status != 200 { // to learn the limit
					t.Fatal(status, err)
				}
				var group sync.WaitGroup
				for range 4 {
					group.Go(func() {
						for range 5 {
							if _, err := get(t.Context(), client, "http://a/"); err != nil {
								t.Error(err)
							}
						}
					})
				}
				group.Wait()
				if took := time.Since(begun); took < 40*time.Second || took > 70*time.Second || refused > 0 {
					t.Errorf("21 requests took %v; %d of them refused", took, refused)
				}
			})
		})
	}
}

// Requests whose answers have no report, and failed requests, also reduce the remaining requests,
// because the server may have counted them.
func TestBudgetWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := log{begun: time.Now()}
		client := &http.Client{Transport: pace.NewTransport(memory.New(memory.Options{}), nil, pace.TransportOptions{
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
				switch r.Host = r.URL.Host; log.note(r) {
				case 1:
					answer.Header.Set("RateLimit", `"four";r=3;t=10`)
				case 3:
					return nil, io.ErrUnexpectedEOF
				}
				return answer, nil
			}),
		})}
		for i := range 8 {
			if _, err := get(t.Context(), client, "http://a/"); (err != nil) != (i == 2) {
				t.Fatal(i, err)
			}
		}
		log.check(t, "a", 0, 0, 0, 0, 10*time.Second, 10*time.Second, 10*time.Second, 10*time.Second)
	})
}

// A refused request is retried after the requested time, at most MaxRetries times and with its
// whole body; if that is not possible the answer is returned.
func TestRetries(t *testing.T) {
	replay := func(s string) io.Reader { return strings.NewReader(s) }
	once := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) } // a body without GetBody
	for _, test := range []struct {
		name     string
		retries  int
		status   int
		after    string // value of Retry-After
		refusals int    // number of refusals that the server sends first
		body     io.Reader
		deadline time.Duration
		want     int
		requests int
		took     time.Duration
	}{
		{"not asked for", 0, 429, "2", 1, nil, 0, 429, 1, 0},
		{"once", 1, 429, "2", 1, nil, 0, 200, 2, 2 * time.Second},
		{"not often enough", 1, 429, "2", 2, nil, 0, 429, 2, 2 * time.Second},
		{"no time: one second, then two", 2, 429, "", 2, nil, 0, 200, 3, 3 * time.Second},
		{"absurd time", 1, 429, "86400", 1, nil, 0, 200, 2, 5 * time.Minute},
		{"malformed time", 1, 429, "tomorrow", 1, nil, 0, 200, 2, time.Second},
		{"unavailable", 1, 503, "2", 1, nil, 0, 200, 2, 2 * time.Second},
		{"unavailable, no time", 1, 503, "", 1, nil, 0, 503, 1, 0},
		{"another failure", 1, 500, "2", 1, nil, 0, 500, 1, 0},
		{"body", 2, 429, "2", 2, replay("hello"), 0, 200, 3, 4 * time.Second},
		{"body that is gone", 2, 429, "2", 2, once("hello"), 0, 429, 1, 0},
		{"no body after all", 1, 429, "2", 1, http.NoBody, 0, 200, 2, 2 * time.Second},
		{"deadline before that time", 1, 429, "2", 1, nil, 2 * time.Second, 429, 1, 0},
		{"deadline after that time", 1, 429, "2", 1, nil, 3 * time.Second, 200, 2, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				client := serve(t, func(w http.ResponseWriter, r *http.Request) {
					n := int(requests.Add(1))
					body, _ := io.ReadAll(r.Body)
					if want := test.body != nil && test.body != http.NoBody; want != bytes.Equal(body, []byte("hello")) {
						t.Errorf("request %d has the body %q", n, body)
					}
					if n <= test.refusals {
						if test.after != "" {
							w.Header().Set("Retry-After", test.after)
						}
						w.WriteHeader(test.status)
						fmt.Fprint(w, strings.Repeat("no ", 1000))
					}
				}, nil, pace.TransportOptions{MaxRetries: test.retries})
				ctx := t.Context()
				if test.deadline > 0 {
					ctx = deadline(t, test.deadline)
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a/", test.body)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				answer, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if took := time.Since(begun); answer.StatusCode != test.want || int(requests.Load()) != test.requests || took != test.took {
					t.Errorf("%d after %d requests in %v, want %d after %d in %v",
						answer.StatusCode, requests.Load(), took, test.want, test.requests, test.took)
				}
			})
		})
	}
}

// If its context ends while a request waits, the request fails and its body is closed.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, func(http.ResponseWriter, *http.Request) {}, stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour}), pace.TransportOptions{})
		if status, err := get(t.Context(), client, "http://a/"); status != 200 {
			t.Fatal(status, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		body := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a/", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Do(r); !errors.Is(err, context.Canceled) || !body.closed.Load() {
			t.Errorf("%v, body closed: %v", err, body.closed.Load())
		}
	})
}

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

// Unused hosts are removed, unless they are paused.
func TestManyHosts(t *testing.T) {
	store := memory.New(memory.Options{})
	transport := pace.NewTransport(store, nil, pace.TransportOptions{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if r.URL.Host == "paused" {
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		if r.URL.Host == "broken" {
			return nil, net.ErrClosed
		}
		return w.Result(), nil
	})})
	client := &http.Client{Transport: transport}
	if _, err := get(t.Context(), client, "http://broken/"); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for i := range 1000 {
		if _, err := get(t.Context(), client, fmt.Sprintf("http://host%d/", i)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if status, err := get(t.Context(), client, "http://paused/"); status != 429 {
				t.Fatal(status, err)
			}
		}
	}
	if n := transport.HostsForTest(); n > 130 {
		t.Errorf("%d hosts are remembered", n)
	}
	if _, err := get(deadline(t, time.Minute), client, "http://paused/"); !errors.Is(err, pace.ErrTooLate) {
		t.Errorf("the pause is forgotten: %v", err)
	}
	client.CloseIdleConnections() // the base does not support it, which is fine
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The same with real sockets: after one refusal all callers wait.
func TestRealServer(t *testing.T) {
	var requests, early atomic.Int32
	var resume time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case requests.Add(1) == 1:
			resume = time.Now().Add(time.Second)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case time.Now().Before(resume):
			early.Add(1)
		}
	}))
	defer server.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second})
	client := &http.Client{Transport: pace.NewTransport(memory.New(memory.Options{}), limit, pace.TransportOptions{
		Base: server.Client().Transport,
	})}
	defer client.CloseIdleConnections()
	if status, err := get(t.Context(), client, server.URL); status != 429 {
		t.Fatal(status, err)
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if status, err := get(t.Context(), client, server.URL); status != 200 {
				t.Error(status, err)
			}
		})
	}
	group.Wait()
	if n := early.Load(); n > 0 || requests.Load() != 21 {
		t.Errorf("%d requests, %d of them during the pause", requests.Load(), n)
	}
}
