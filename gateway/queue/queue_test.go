package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint/gateway/queue"
	"stint/gateway/queue/file"
	"stint/gateway/queue/seal"
	"stint/httplimit"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/limiter/line"
	"stint/rule"
	"stint/rule/denial"
)

// settings are the defaults of a rule.
func settings() *denial.Excess {
	return &denial.Excess{
		Mode: denial.Queue, Places: 100, Full: 429, Methods: []string{"POST", "PUT", "PATCH", "DELETE"}, Body: 1 << 20, Bytes: 1 << 30,
		Keep: time.Hour, Tries: 4,
	}
}

var alice = netip.MustParseAddr("192.0.2.1")

// excess is a request of a key that the rule orders denied.
func excess(key byte, identity string) *httplimit.Excess {
	return &httplimit.Excess{
		Line: line.ID{Domain: "api", Rule: "orders", Key: [16]byte{key}}, Settings: settings(), Domain: "api",
		Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "a"}}, Cost: 2}}, Client: alice, Identity: identity,
	}
}

// site is a queue with a worker and an upstream.
type site struct {
	t       *testing.T
	storage queue.Storage
	keys    *seal.Keys
	signer  *queue.Signer
	queue   *queue.Queue
	worker  *queue.Worker
	gate    func(*queue.Record) (queue.Admission, error)
	began   time.Time
	logged  *bytes.Buffer
	counts  queue.Counts
	rules   func() any
	publish func(context.Context) error

	mu       sync.Mutex
	upstream func(n int, w http.ResponseWriter, r *http.Request) // n is the number of the try, from 1
	got      []call
}

// call is a request that the upstream got.
type call struct {
	after                      time.Duration // since the start of the test
	method, uri, body, key, id string
	header                     http.Header
}

// in runs a test with a site in virtual time.
func in(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opened, err := file.Open(filepath.Join(t.TempDir(), "queue"))
		testkit.Must(t, err)
		storage := opened.Queue()
		keys, err := seal.Parse([]byte(strings.Repeat("01", 16) + strings.Repeat("23", 16)))
		testkit.Must(t, err)
		signer, err := queue.NewSigner([]byte(secret))
		testkit.Must(t, err)
		s := &site{t: t, storage: storage, keys: keys, signer: signer, began: time.Now(), logged: new(bytes.Buffer)}
		s.gate = func(*queue.Record) (queue.Admission, error) { return queue.Admission{}, nil }
		s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thanks") }
		s.queue = queue.New(queue.Options{
			Storage: storage, Keys: keys, Stored: func() { s.worker.Wake() }, Log: s.log(),
			Secrets: func(string) queue.Secrets {
				return queue.Secrets{Headers: []string{"x-key"}, Parameters: []string{"key"}}
			},
		})
		s.worker = s.newWorker()
		defer func() {
			s.worker.Stop(t.Context())
			testkit.Must(t, storage.Close())
		}()
		test(t, s)
	})
}

const secret = "a secret of 32 bytes or a bit more"

func (s *site) log() *slog.Logger { return slog.New(slog.NewTextHandler(s.logged, nil)) }

// Ask implements queue.Gate.
func (s *site) Ask(_ context.Context, r *queue.Record) (queue.Admission, error) { return s.gate(r) }

func (s *site) newWorker() *queue.Worker {
	w := queue.NewWorker(queue.WorkerOptions{
		Storage: s.storage, Keys: s.keys, Gate: s, Deliver: s.deliver, Signer: s.signer, Sends: 4, Counts: &s.counts, Log: s.log(), Rules: s.rules,
		Publish: s.publish,
	})
	w.Start()
	return w
}

func (s *site) deliver(_ context.Context, _ *queue.Record, r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	testkit.Must(s.t, err)
	s.mu.Lock()
	s.got = append(s.got, call{
		time.Since(s.began), r.Method, r.URL.RequestURI(), string(body), r.Header.Get("Idempotency-Key"), r.Header.Get(queue.IdentityHeader), r.Header,
	})
	n := len(s.got)
	s.mu.Unlock()
	return queue.ServeTo(func(w http.ResponseWriter, r *http.Request) error {
		s.upstream(n, w, r)
		if r.Header.Get("Test-No-Answer") != "" {
			return errors.New("no answer")
		}
		return nil
	}, r)
}

// pass lets time pass, and everything happen that is due. Only the test itself calls it.
func pass(d time.Duration) {
	busy(d)
	synctest.Wait()
}

// busy is a slow upstream.
func busy(d time.Duration) {
	time.Sleep(d) // in virtual time
}

// settle lets the worker do what is due. Changes of the file wait a moment for each other, so it sleeps in
// virtual time.
func (s *site) settle() {
	pass(100 * time.Millisecond)
}

func (s *site) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// accept queues a request, which must be accepted, and returns the answer and the path of its status.
func (s *site) accept(r *http.Request, e *httplimit.Excess) (*httptest.ResponseRecorder, string) {
	s.t.Helper()
	w := httptest.NewRecorder()
	if err := s.queue.Accept(w, r, e); err != nil || w.Code != http.StatusAccepted {
		s.t.Fatalf("accept: %d, %v", w.Code, err)
	}
	return w, w.Header().Get("Location")
}

// status asks for the status of a record.
func (s *site) status(method, path, client string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.queue.ServeStatus(w, httptest.NewRequest(method, path, nil), client)
	return w
}

func order(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "https://shop.example.com/orders/1%2f2?a=1&key=secret&b=%20", strings.NewReader(body))
}

// The upstream gets the request as it was, without what is secret or of the connection; the client gets the
// answer.
func TestDelivered(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("X-Order", "7")
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made")
		}
		r := order("two apples")
		for name, value := range map[string]string{
			"Authorization": "Bearer x", "Cookie": "session=1", "X-Key": "secret", "Connection": "close, x-mine", "X-Mine": "1", "Te": "trailers",
			"X-Api-Key": "secret", "Prefer": "respond-async", "X-Forwarded-For": "203.0.113.9", "Content-Type": "text/plain", "X-Custom": "kept", queue.IdentityHeader: "forged",
		} {
			r.Header.Set(name, value)
		}
		w, path := s.accept(r, excess(1, "alice"))
		var body struct {
			ID, State, Status string
			Place             int
		}
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
		if body.State != "waiting" || body.Place != 1 || body.Status != path || path != queue.StatusPath+body.ID || !queue.ValidID(body.ID) ||
			w.Header().Get("Preference-Applied") != "respond-async" || w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("202 with %v %s", w.Header(), w.Body)
		}
		s.settle()
		calls := s.calls()
		if len(calls) != 1 {
			t.Fatalf("%d calls\n%s", len(calls), s.logged)
		}
		got := calls[0]
		if got.method != "POST" || got.uri != "/orders/1%2f2?a=1&b=%20" || got.body != "two apples" || got.key != body.ID {
			t.Errorf("the upstream got %+v", got)
		}
		want := http.Header{"Content-Type": {"text/plain"}, "X-Custom": {"kept"}, "Idempotency-Key": {body.ID}, queue.IdentityHeader: {got.id}}
		if len(got.header) != len(want) || got.header.Get("Content-Type") != "text/plain" || got.header.Get("X-Custom") != "kept" {
			t.Errorf("the upstream got the header %v, want %v", got.header, want)
		}
		if sub, id := verify(t, got.id, secret); sub != "alice" || id != body.ID {
			t.Errorf("the identity is %q in %q", sub, id)
		}
		answer := s.status("GET", path, queue.Identified("alice"))
		if answer.Code != http.StatusCreated || answer.Body.String() != "made" || answer.Header().Get("X-Order") != "7" || answer.Header().Get(queue.StateHeader) != "done" {
			t.Errorf("the client gets %d %v %s", answer.Code, answer.Header(), answer.Body)
		}
		for _, name := range []string{"Set-Cookie", "X-Hop", "Connection"} {
			if answer.Header().Get(name) != "" {
				t.Errorf("the client gets %s", name)
			}
		}
	})
}

// The client's own Idempotency-Key is sent in all tries.
func TestIdempotencyKey(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
		r := order("x")
		r.Header.Set("Idempotency-Key", "mine")
		s.accept(r, excess(1, ""))
		pass(time.Minute)
		calls := s.calls()
		if len(calls) != 3 {
			t.Fatalf("%d tries", len(calls))
		}
		for _, c := range calls {
			if c.key != "mine" {
				t.Errorf("sent with the key %q", c.key)
			}
		}
	})
}

// What has no answer, or one that says so, is tried again after 1 s, 2 s, 4 s and so on, up to 5 min; then
// it is dead.
func TestTries(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		again  bool
	}{
		{"no answer", 0, true},
		{"408", 408, true},
		{"425", 425, true},
		{"429", 429, true},
		{"500", 500, true},
		{"503", 503, true},
		{"200", 200, false},
		{"302", 302, false},
		{"400", 400, false},
		{"404", 404, false},
		{"409", 409, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, s *site) {
				r, e := order("x"), excess(1, "")
				if tt.status == 0 {
					r.Header.Set("Test-No-Answer", "yes")
				}
				s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) {
					if tt.status != 0 {
						w.WriteHeader(tt.status)
					}
				}
				e.Settings.Tries, e.Settings.Keep = 12, 24*time.Hour
				_, path := s.accept(r, e)
				pass(2 * time.Hour)
				var times []time.Duration
				for _, c := range s.calls() {
					times = append(times, c.after.Round(time.Second))
				}
				answer := s.status("GET", path, queue.Anonymous(alice))
				if !tt.again {
					if len(times) != 1 || answer.Code != tt.status {
						t.Errorf("tried at %v, the answer is %d", times, answer.Code)
					}
					return
				}
				at, pause := time.Duration(0), time.Second
				for i := range 12 {
					if i >= len(times) || times[i] != at {
						t.Fatalf("tried at %v; number %d is to be at %v", times, i, at)
					}
					at += pause
					pause = min(2*pause, 5*time.Minute)
				}
				want := tt.status
				if want == 0 {
					want = http.StatusGatewayTimeout
				}
				if len(times) != 12 || answer.Code != want || answer.Header().Get(queue.StateHeader) != "dead" {
					t.Errorf("tried at %v; the answer is %d %v", times, answer.Code, answer.Header())
				}
				if s.counts.Dead.Load() != 1 || s.counts.Retried.Load() != 11 {
					t.Errorf("counted %d dead, %d tried again", s.counts.Dead.Load(), s.counts.Retried.Load())
				}
			})
		})
	}
}

// A line keeps its order, and waits for its first; the others go on.
func TestLineWaits(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		bad := order("a1")
		bad.URL.Path, bad.URL.RawPath = "/bad", ""
		s.accept(bad, excess(1, ""))
		s.accept(order("a2"), excess(1, ""))
		s.accept(order("a3"), excess(1, ""))
		s.accept(order("b1"), excess(2, ""))
		if !s.queue.Holds(excess(1, "").Line) || s.queue.Holds(excess(9, "").Line) {
			t.Error("the queue holds other lines")
		}
		pass(time.Minute)
		var order []string
		for _, c := range s.calls() {
			order = append(order, c.body)
		}
		if got := strings.Join(order, " "); got != "a1 b1 a1 a1 a1 a2 a3" {
			t.Errorf("sent %s", got)
		}
		if s.queue.Holds(excess(1, "").Line) {
			t.Error("the finished line still holds records")
		}
	})
}

// A record that its limit denies waits for the retry time, without a try.
func TestDenied(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		asked := 0
		s.gate = func(r *queue.Record) (queue.Admission, error) {
			asked++
			if r.Descriptors[0].Entries[0] != (queue.Pair{Key: "user", Value: "a"}) || r.Descriptors[0].Cost != 2 || r.Domain != "api" || r.Client != alice {
				t.Errorf("asked about %+v", r)
			}
			switch asked {
			case 1, 2:
				return queue.Admission{Wait: 7 * time.Second}, nil
			case 3:
				return queue.Admission{}, errors.New("the store is away")
			}
			return queue.Admission{Delay: 2 * time.Second}, nil
		}
		e := excess(1, "")
		e.RetryAfter = 10 * time.Second
		w, _ := s.accept(order("x"), e)
		if w.Header().Get("Retry-After") != "10" {
			t.Errorf("Retry-After: %s", w.Header().Get("Retry-After"))
		}
		pass(time.Hour)
		calls := s.calls()
		if len(calls) != 1 || calls[0].after.Round(time.Second) != 27*time.Second {
			t.Errorf("sent %+v", calls)
		}
	})
}

// A record whose client may not come any more is not sent.
func TestRefused(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.gate = func(*queue.Record) (queue.Admission, error) { return queue.Admission{Refused: "banned"}, nil }
		_, path := s.accept(order("x"), excess(1, ""))
		pass(time.Minute)
		answer := s.status("GET", path, queue.Anonymous(alice))
		if len(s.calls()) != 0 || answer.Code != http.StatusForbidden || answer.Header().Get(queue.StateHeader) != "failed" {
			t.Errorf("%d calls, status %d %v", len(s.calls()), answer.Code, answer.Header())
		}
	})
}

// What a limit reserved is settled by the status of the answer.
func TestSettled(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		var settled []int
		s.gate = func(*queue.Record) (queue.Admission, error) {
			return queue.Admission{Settle: func(status int) { settled = append(settled, status) }}, nil
		}
		s.upstream = func(n int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader([]int{0, 500, 201}[n])
		}
		s.accept(order("x"), excess(1, ""))
		pass(time.Minute)
		if len(settled) != 2 || settled[0] != 500 || settled[1] != 201 {
			t.Errorf("settled with %v", settled)
		}
	})
}

// verify returns subject and ID of an identity token.
func verify(t *testing.T, token, key string) (sub, id string) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %q", token)
	}
	return verifyToken(t, token, key)
}
