package queue_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stint/gateway/queue"
	"stint/gateway/queue/seal"
	"stint/httplimit"
	"stint/internal/testkit"
)

// verifyToken verifies an identity token as an upstream does.
func verifyToken(t *testing.T, token, key string) (sub, id string) {
	t.Helper()
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return []byte(key), nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer("stint-gateway"), jwt.WithAudience("shop.example.com"), jwt.WithExpirationRequired())
	testkit.Must(t, err)
	if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return []byte(key + "x"), nil }); err == nil {
		t.Error("another key verifies the token too")
	}
	return claims.Subject, claims.ID
}

// Only the client of a record sees it.
func TestStatusOfOthers(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		_, named := s.accept(order("x"), excess(1, "alice"))
		_, nameless := s.accept(order("x"), excess(2, ""))
		v6 := excess(3, "")
		v6.Client = netip.MustParseAddr("2001:db8::1")
		_, network := s.accept(order("x"), v6)
		s.settle()
		other := netip.MustParseAddr("192.0.2.2")
		for _, tt := range []struct {
			path, client string
			want         int
		}{
			{named, queue.Identified("alice"), 200},
			{named, queue.Identified("bob"), 404},
			{named, queue.Anonymous(alice), 404},
			{nameless, queue.Anonymous(alice), 200},
			{nameless, queue.Anonymous(other), 404},
			{nameless, queue.Identified("alice"), 404},
			{network, queue.Anonymous(netip.MustParseAddr("2001:db8::2")), 200},
			{network, queue.Anonymous(netip.MustParseAddr("2001:db8:1::1")), 404},
			{queue.StatusPath, queue.Identified("alice"), 404},
			{queue.StatusPath + queue.NewID(), queue.Identified("alice"), 404},
			{strings.ToUpper(named), queue.Identified("alice"), 404},
			{named + "/x", queue.Identified("alice"), 404},
		} {
			for _, method := range []string{"GET", "DELETE", "PUT"} {
				got := s.status(method, tt.path, tt.client).Code
				want := tt.want
				if want == 200 {
					want = map[string]int{"GET": 200, "DELETE": 409, "PUT": 405}[method]
				}
				if got != want {
					t.Errorf("%s %s of %s: %d, want %d", method, tt.path, tt.client, got, want)
				}
			}
		}
	})
}

// A record can be cancelled until it is sent.
func TestCancelled(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(_ int, _ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Slow") != "" {
				busy(time.Minute)
			}
		}
		client := queue.Anonymous(alice)
		slow := order("slow")
		slow.Header.Set("Slow", "1")
		_, first := s.accept(slow, excess(1, ""))
		_, second := s.accept(order("second"), excess(1, ""))
		_, third := s.accept(order("third"), excess(1, ""))
		s.settle()
		if w := s.status("GET", first, client); w.Code != 202 || w.Header().Get("Retry-After") == "" || w.Header().Get(queue.StateHeader) != "claimed" {
			t.Errorf("while it is sent: %d %v", w.Code, w.Header())
		}
		if w := s.status("DELETE", first, client); w.Code != 409 {
			t.Errorf("cancelling while it is sent: %d", w.Code)
		}
		for range 2 {
			if w := s.status("DELETE", second, client); w.Code != 204 {
				t.Errorf("cancelling: %d", w.Code)
			}
		}
		if w := s.status("GET", second, client); w.Code != 410 || w.Header().Get(queue.StateHeader) != "cancelled" {
			t.Errorf("after that: %d", w.Code)
		}
		pass(2 * time.Minute)
		calls := s.calls()
		if len(calls) != 2 || calls[1].body != "third" {
			t.Errorf("sent %+v", calls)
		}
		if w := s.status("GET", third, client); w.Code != 200 {
			t.Errorf("the third: %d", w.Code)
		}
	})
}

// An answer is gone after its time, and later the record is unknown.
func TestGone(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		_, path := s.accept(order("x"), excess(1, ""))
		client := queue.Anonymous(alice)
		pass(time.Hour - time.Second)
		if w := s.status("GET", path, client); w.Code != 200 || w.Body.String() != "thanks" {
			t.Errorf("before: %d %s", w.Code, w.Body)
		}
		pass(2 * time.Second)
		if w := s.status("GET", path, client); w.Code != 410 {
			t.Errorf("after: %d", w.Code)
		}
		pass(time.Hour - 30*time.Second)
		if w := s.status("GET", path, client); w.Code != 410 || w.Header().Get(queue.StateHeader) != "gone" {
			t.Errorf("long after: %d %v", w.Code, w.Header())
		}
		pass(time.Minute)
		if w := s.status("GET", path, client); w.Code != 404 {
			t.Errorf("at last: %d", w.Code)
		}
		stats, err := s.storage.Stats(t.Context())
		if len(stats) != 0 || err != nil {
			t.Errorf("the storage has %v, %v", stats, err)
		}
	})
}

// A long body is kept in part.
func TestTruncated(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		}
		_, path := s.accept(order("x"), excess(1, ""))
		s.settle()
		w := s.status("GET", path, queue.Anonymous(alice))
		if w.Body.Len() != 64<<10 || w.Header().Get(queue.TruncatedHeader) != "true" || w.Header().Get("Content-Length") != "65536" {
			t.Errorf("%d bytes, %v", w.Body.Len(), w.Header())
		}
		if w := s.status("HEAD", path, queue.Anonymous(alice)); w.Body.Len() != 0 || w.Code != 200 {
			t.Errorf("HEAD: %d, %d bytes", w.Code, w.Body.Len())
		}
	})
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What cannot be queued is refused without an answer.
func TestNotAccepted(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		request := func(method string, change func(r *http.Request, e *httplimit.Excess)) error {
			r, e := httptest.NewRequest(method, "/", strings.NewReader("12345")), excess(1, "")
			change(r, e)
			w := httptest.NewRecorder()
			err := s.queue.Accept(w, r, e)
			if err != nil && (w.Body.Len() != 0 || len(w.Header()) != 0) {
				t.Errorf("answered %v %s beside the error %v", w.Header(), w.Body, err)
			}
			return err
		}
		for name, tt := range map[string]struct {
			err error
			ok  bool
			is  error
		}{
			"as large as can be": {err: request("POST", func(_ *http.Request, e *httplimit.Excess) { e.Settings.Body = 5 }), ok: true},
			"too large":          {err: request("POST", func(_ *http.Request, e *httplimit.Excess) { e.Settings.Body = 4 }), is: httplimit.ErrTooLarge},
			"too large, chunked": {err: request("POST", func(r *http.Request, e *httplimit.Excess) {
				e.Settings.Body, r.ContentLength = 4, -1
			}), is: httplimit.ErrTooLarge},
			"full":       {err: request("POST", func(_ *http.Request, e *httplimit.Excess) { e.Settings.Places = 0 }), is: httplimit.ErrQueueFull},
			"full bytes": {err: request("POST", func(_ *http.Request, e *httplimit.Excess) { e.Settings.Bytes = 100 }), is: httplimit.ErrQueueFull},
			"broken body": {err: request("POST", func(r *http.Request, _ *httplimit.Excess) {
				r.Body, r.ContentLength = io.NopCloser(brokenBody{}), -1
			}), is: io.ErrUnexpectedEOF},
		} {
			if (tt.err == nil) != tt.ok || tt.is != nil && !errors.Is(tt.err, tt.is) {
				t.Errorf("%s: %v", name, tt.err)
			}
		}
	})
}

// A request that a worker sends is never queued again.
func TestNotQueuedTwice(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		var err error
		s.upstream = func(_ int, w http.ResponseWriter, r *http.Request) {
			err = s.queue.Accept(w, r, excess(1, ""))
		}
		s.accept(order("x"), excess(1, ""))
		s.settle()
		if err == nil || !strings.Contains(err.Error(), "not queued again") {
			t.Errorf("%v", err)
		}
	})
}

// Stop hands the claims back: another worker sends the record at once.
func TestStop(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(n int, _ http.ResponseWriter, r *http.Request) {
			if n == 1 {
				<-r.Context().Done()
			}
		}
		_, path := s.accept(order("x"), excess(1, ""))
		s.settle()
		grace, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.worker.Stop(grace)
		if took := time.Since(s.began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Header().Get(queue.StateHeader) != "waiting" {
			t.Errorf("after the stop: %v", w.Header())
		}
		s.worker = s.newWorker()
		pass(time.Second)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != 200 || len(s.calls()) != 2 {
			t.Errorf("after the start: %d, %d calls", w.Code, len(s.calls()))
		}
	})
}

// Stop waits for an answer that comes in time.
func TestStopWaits(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(int, http.ResponseWriter, *http.Request) { busy(5 * time.Second) }
		_, path := s.accept(order("x"), excess(1, ""))
		s.settle()
		grace, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.worker.Stop(grace)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != 200 {
			t.Errorf("after the stop: %d %v", w.Code, w.Header())
		}
		s.worker = s.newWorker()
	})
}

// A slow try keeps its claim; nobody else sends the record meanwhile.
func TestRenewed(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(int, http.ResponseWriter, *http.Request) { busy(3 * time.Minute) }
		second := s.newWorker()
		defer second.Stop(t.Context())
		s.accept(order("x"), excess(1, ""))
		pass(10 * time.Minute)
		if len(s.calls()) != 1 {
			t.Errorf("sent %d times", len(s.calls()))
		}
	})
}

// frozen is a storage whose claims cannot be renewed any more.
type frozen struct {
	queue.Lines
	since time.Time
}

func (f *frozen) Renew(ctx context.Context, id, worker string, lease time.Duration, sending bool) error {
	if !f.since.IsZero() && time.Now().After(f.since) {
		return errors.New("the server is away")
	}
	return f.Lines.Renew(ctx, id, worker, lease, sending)
}

// A worker that cannot renew its claim stops sending before it runs out.
func TestClaimRunsOut(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		var ended time.Duration
		s.upstream = func(n int, _ http.ResponseWriter, r *http.Request) {
			if n == 1 {
				<-r.Context().Done()
				ended = time.Since(s.began)
			}
		}
		s.worker.Stop(t.Context())
		whole := s.storage
		s.storage.Lines = &frozen{whole.Lines, s.began.Add(5 * time.Second)}
		s.worker = s.newWorker()
		s.storage = whole
		s.accept(order("x"), excess(1, ""))
		s.settle()
		second := s.newWorker()
		defer second.Stop(t.Context())
		pass(time.Minute)
		calls := s.calls()
		if len(calls) != 2 || ended >= 30*time.Second || ended < 25*time.Second || calls[1].after < ended {
			t.Errorf("the first try ended after %v; tries %+v", ended, calls)
		}
	})
}

// A record that cannot be decrypted waits until its key is back, and is not lost.
func TestUnknownKey(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.worker.Stop(t.Context())
		_, path := s.accept(order("x"), excess(1, ""))
		first := s.keys
		var err error
		s.keys, err = seal.Parse([]byte(strings.Repeat("45", 16) + strings.Repeat("67", 16)))
		testkit.Must(t, err)
		s.worker = s.newWorker()
		pass(time.Minute)
		if len(s.calls()) != 0 || s.counts.Unreadable.Load() != 1 || !strings.Contains(s.logged.String(), "unknown key") {
			t.Errorf("%d calls, %d unreadable, log:\n%s", len(s.calls()), s.counts.Unreadable.Load(), s.logged)
		}
		s.worker.Stop(t.Context())
		s.keys = first
		s.worker = s.newWorker()
		pass(10 * time.Minute)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != 200 {
			t.Errorf("with the key: %d", w.Code)
		}
	})
}
