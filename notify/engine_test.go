package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint/internal/testkit"
)

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// arrival is a webhook that arrived.
type arrival struct {
	id   string
	at   time.Time // its timestamp
	body message
}

// receiver is a server that verifies webhooks, and answers as the test wants.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals []arrival
	problems []string
	answer   func(n int, w http.ResponseWriter) // n arrivals came before; nil: 204
}

// newReceiver starts a receiver. It must be called outside of a bubble of synctest.
func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	text, _ := io.ReadAll(q.Body)
	a := arrival{id: q.Header.Get("webhook-id")}
	seconds, err := strconv.ParseInt(q.Header.Get("webhook-timestamp"), 10, 64)
	a.at = time.Unix(seconds, 0)
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secretText, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", a.id, seconds, text)
	signature := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	r.mu.Lock()
	if wrong := json.Unmarshal(text, &a.body); err != nil || wrong != nil || !slices.Contains(strings.Fields(q.Header.Get("webhook-signature")), signature) {
		r.problems = append(r.problems, fmt.Sprint(q.Header, string(text)))
	}
	n, answer := len(r.arrivals), r.answer
	r.arrivals = append(r.arrivals, a)
	r.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(n, w)
}

// answers makes the receiver answer in another way.
func (r *receiver) answers(how func(n int, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = how
}

// got returns what arrived.
func (r *receiver) got(t testing.TB) []arrival {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, problem := range r.problems {
		t.Error("cannot be verified: " + problem)
	}
	return slices.Clone(r.arrivals)
}

// as returns the receiver as one of the config file.
func (r *receiver) as(t testing.TB, name string) Receiver {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(file, []byte(secretText+"\n"), 0o600))
	return Receiver{Name: name, URL: r.URL + "/hunter2?token=hunter2", SecretFile: file, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
}

// newShop starts a receiver that answers in a way. It returns also the receiver of the config file, called shop, and
// the path of a file for its deliveries.
func newShop(t testing.TB, answer func(int, http.ResponseWriter)) (shop *receiver, at Receiver, path string) {
	t.Helper()
	shop = newReceiver(t)
	shop.answers(answer)
	return shop, shop.as(t, "shop"), filepath.Join(t.TempDir(), "webhooks")
}

// status makes a receiver answer with a status.
func status(code int) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) { w.WriteHeader(code) }
}

// outbox is an Outbox in memory.
type outbox struct {
	mu     sync.Mutex
	events []Event
}

func (o *outbox) add(events ...Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, events...)
}

// Pending implements Outbox.
func (o *outbox) Pending(_ context.Context, n int) ([]Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events[:min(n, len(o.events))]), nil
}

// Done implements Outbox.
func (o *outbox) Done(_ context.Context, ids []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = slices.DeleteFunc(o.events, func(e Event) bool { return slices.Contains(ids, e.ID) })
	return nil
}

// event returns an event for tests.
func event(n int) Event {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return Event{
		ID: fmt.Sprintf("evt_%04d", n), Type: "usage.threshold", Rule: "api/user", Subject: fmt.Sprintf("user=%d", n), Threshold: 80, Used: 80, Of: 100,
		PeriodStart: start, PeriodEnd: start.AddDate(0, 1, 0), At: start.Add(time.Duration(n) * time.Minute),
	}
}

// fixture is a running engine over a file.
type fixture struct {
	*Engine
	file   *File
	outbox *outbox
	log    *bytes.Buffer // read it after end
	end    func()
}

// run starts an engine. It ends at the end of the test, or when end is called.
func run(t testing.TB, path string, receivers ...Receiver) *fixture {
	t.Helper()
	return runKeeping(t, path, 0, receivers...)
}

// runKeeping is run with the most deliveries of a receiver that are kept.
func runKeeping(t testing.TB, path string, keep int, receivers ...Receiver) *fixture {
	t.Helper()
	file, err := OpenFile(path)
	testkit.Must(t, err)
	f := &fixture{file: file, outbox: new(outbox), log: new(bytes.Buffer)}
	f.Engine, err = New(Options{
		Receivers: receivers, Queue: file, Outbox: f.outbox, Keep: keep,
		Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	f.end = sync.OnceFunc(func() {
		cancel()
		<-ended
		testkit.Must(t, file.Close())
	})
	t.Cleanup(func() {
		f.end()
		if strings.Contains(f.log.String(), "hunter2") || strings.Contains(f.log.String(), "MfKQ") {
			t.Errorf("the log has a secret:\n%s", f.log)
		}
	})
	return f
}

// list returns the deliveries in a state.
func (f *fixture) list(t testing.TB, s State) []Delivery {
	t.Helper()
	list, err := f.List(t.Context(), Query{State: s, Limit: 1000})
	testkit.Must(t, err)
	return list.Deliveries
}

// A receiver that is down for a day gets every event afterwards, signed, with the ID that all tries had.
func TestDownForADay(t *testing.T) {
	shop, at, path := newShop(t, status(http.StatusInternalServerError))
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		began := time.Now()
		const events = 24
		for n := range events {
			f.outbox.add(event(n))
			time.Sleep(time.Hour)
		}
		for _, a := range shop.got(t) {
			if a.at.Before(began) || a.at.Sub(began) > 24*time.Hour {
				t.Fatalf("the timestamp %v is not that of the try", a.at)
			}
		}
		down := len(shop.got(t))
		shop.answers(nil)
		time.Sleep(24 * time.Hour)
		tries, success := map[string]int{}, map[string]int{}
		for i, a := range shop.got(t) {
			tries[a.id]++
			if i >= down {
				success[a.id]++
			}
			if want := event(0); a.body.Type != want.Type || a.body.Data.Rule != want.Rule || a.body.Data.Of != 100 || !a.body.Data.PeriodEnd.Equal(want.PeriodEnd) {
				t.Fatalf("%s: the body is %+v", a.id, a.body)
			}
		}
		for n := range events {
			id := event(n).ID
			if success[id] != 1 || tries[id] < 2 || tries[id] > len(delays) {
				t.Errorf("%s arrived %d times in %d tries", id, success[id], tries[id])
			}
		}
		if len(tries) != events || len(f.list(t, Delivered)) != events {
			t.Errorf("%d events were tried and %d delivered, of %d", len(tries), len(f.list(t, Delivered)), events)
		}
		f.end()
		if !strings.Contains(f.log.String(), "receiver accepts events again") {
			t.Errorf("the log is\n%s", f.log)
		}
		if s := f.Stats()["shop"]; s.Delivered != events || s.Failed != uint64(down) || s.GivenUp != 0 || s.Waiting != 0 {
			t.Errorf("the numbers are %+v, and %d tries failed", s, down)
		}
	})
}

// After ten tries in about 75 hours a delivery is given up and stays in the list, and a retry by hand delivers it.
func TestGiveUp(t *testing.T) {
	shop, at, path := newShop(t, status(http.StatusMovedPermanently))
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		began := time.Now()
		f.outbox.add(event(1))
		time.Sleep(84 * time.Hour)
		got := shop.got(t)
		if len(got) != len(delays) {
			t.Fatalf("%d tries", len(got))
		}
		if last := got[len(got)-1].at.Sub(began); last < 68*time.Hour || last > 83*time.Hour {
			t.Errorf("the last try is after %v", last)
		}
		failed := f.list(t, Failed)
		if len(failed) != 1 || failed[0].Tries != 10 || failed[0].Status != 301 || !strings.Contains(failed[0].Problem, "redirects are not followed") {
			t.Fatalf("failed are %+v", failed)
		}
		shop.answers(nil)
		if n, err := f.Retry(t.Context(), "shop", "evt_9999"); n != 0 || err != nil {
			t.Errorf("an unknown event: %d, %v", n, err)
		}
		if _, err := f.Retry(t.Context(), "nobody", ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("an unknown receiver: %v", err)
		}
		n, err := f.Retry(t.Context(), "shop", "")
		time.Sleep(time.Second)
		if n != 1 || err != nil || len(f.list(t, Failed)) != 0 || len(f.list(t, Delivered)) != 1 {
			t.Errorf("retried %d, %v: delivered %v", n, err, f.list(t, Delivered))
		}
		if n, err = f.Retry(t.Context(), "shop", event(1).ID); n != 1 || err != nil {
			t.Errorf("a delivered one is not replayed: %d, %v", n, err)
		}
		time.Sleep(time.Second)
		if n := len(shop.got(t)); n != len(delays)+2 {
			t.Errorf("%d tries", n)
		}
		f.end()
		if !strings.Contains(f.log.String(), "given up") {
			t.Errorf("the log is\n%s", f.log)
		}
	})
}

// A receiver that answers 410 gets nothing more, until somebody retries. No event is lost.
func TestGone(t *testing.T) {
	shop, at, path := newShop(t, status(http.StatusGone))
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		f.outbox.add(event(1))
		time.Sleep(time.Minute)
		shop.answers(nil)
		f.outbox.add(event(2), event(3))
		time.Sleep(time.Hour)
		if n := len(shop.got(t)); n != 1 {
			t.Fatalf("%d tries", n)
		}
		list, err := f.List(t.Context(), Query{State: Failed, Limit: 10})
		if err != nil || len(list.Deliveries) != 3 || list.Receivers["shop"].Disabled.IsZero() || list.Receivers["shop"].Failed != 3 || !f.Stats()["shop"].Disabled {
			t.Fatalf("the list is %+v, %v", list, err)
		}
		n, err := f.Retry(t.Context(), "shop", "")
		time.Sleep(time.Minute)
		if n != 3 || err != nil || len(f.list(t, Delivered)) != 3 || f.Stats()["shop"].Disabled {
			t.Errorf("retried %d, %v: %+v", n, err, f.Stats())
		}
		f.end()
		if !strings.Contains(f.log.String(), "receiver disabled") {
			t.Errorf("the log is\n%s", f.log)
		}
	})
}

// An answer that asks to slow down pauses the receiver, for all its deliveries.
func TestPause(t *testing.T) {
	shop, at, path := newShop(t, func(n int, w http.ResponseWriter) {
		if n == 0 {
			w.Header().Set("Retry-After", "1200")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		f.outbox.add(event(1))
		time.Sleep(5 * time.Second)
		f.outbox.add(event(2))
		time.Sleep(19 * time.Minute)
		if got := shop.got(t); len(got) != 1 {
			t.Fatalf("%d tries during the pause", len(got))
		}
		time.Sleep(2 * time.Minute)
		if got := shop.got(t); len(got) != 3 || len(f.list(t, Delivered)) != 2 {
			t.Errorf("%d tries after the pause", len(got))
		}
	})
}

// A receiver that does not answer delays no other.
func TestSlowReceiver(t *testing.T) {
	slow, shop := newReceiver(t), newReceiver(t)
	release := make(chan struct{})
	slow.answers(func(int, http.ResponseWriter) { <-release })
	arrived := make(chan struct{}, 100)
	shop.answers(func(int, http.ResponseWriter) { arrived <- struct{}{} })
	f := run(t, filepath.Join(t.TempDir(), "webhooks"), slow.as(t, "slow"), shop.as(t, "shop"))
	for n := range 20 {
		f.outbox.add(event(n))
	}
	for range 20 {
		select {
		case <-arrived:
		case <-time.After(10 * time.Second): // less than the timeout of the other's request
			t.Fatal("the other receiver waits")
		}
	}
	if n := len(slow.got(t)); n == 0 || n > atOnce {
		t.Errorf("the slow one has %d requests", n)
	}
	close(release)
}

// An engine that ends leaves what it has not delivered to the next one; events that come twice are delivered once.
func TestRestart(t *testing.T) {
	shop, at, path := newShop(t, status(http.StatusServiceUnavailable))
	synctest.Test(t, func(t *testing.T) {
		first := run(t, path, at)
		first.outbox.add(event(1), event(2))
		time.Sleep(time.Minute)
		first.end()
		shop.answers(nil)
		second := run(t, path, at)
		second.outbox.add(event(2), event(3))
		time.Sleep(time.Hour)
		second.outbox.add(event(2), event(3))
		time.Sleep(time.Hour)
		success := map[string]int{}
		for _, d := range second.list(t, Delivered) {
			success[d.Event.ID]++
		}
		if len(success) != 3 || len(second.outbox.events) != 0 {
			t.Errorf("delivered are %v", success)
		}
		if n := len(shop.got(t)); n != 2*2+3 {
			t.Errorf("%d tries", n)
		}
		second.end()
		time.Sleep(KeepDelivered)
		third := run(t, path, at)
		time.Sleep(time.Second)
		if list := third.list(t, Delivered); len(list) != 0 {
			t.Errorf("%d deliveries are kept", len(list))
		}
	})
}

// A try that the end of the service cuts does not count.
func TestCut(t *testing.T) {
	slow := newReceiver(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	slow.answers(func(int, http.ResponseWriter) {
		close(arrived)
		<-release
	})
	path := filepath.Join(t.TempDir(), "webhooks")
	f := run(t, path, slow.as(t, "slow"))
	f.outbox.add(event(1))
	<-arrived
	f.end()
	close(release)
	file, err := OpenFile(path)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, file.Close()) }()
	list, err := file.List(t.Context(), Query{State: Waiting, Limit: 10})
	if err != nil || len(list.Deliveries) != 1 || list.Deliveries[0].Tries != 0 || list.Deliveries[0].Due.After(time.Now()) {
		t.Errorf("waiting are %+v, %v", list, err)
	}
}

// Without receivers events leave the outbox, which would fill up otherwise.
func TestNoReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(outbox)
		o.add(event(1), event(2))
		e, err := New(Options{Outbox: o})
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go e.Run(ctx)
		time.Sleep(time.Second)
		cancel()
		if len(o.events) != 0 {
			t.Errorf("%d events are left", len(o.events))
		}
	})
}

// A receiver of lines gets them in its file, each with its ID.
func TestLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	path := filepath.Join(t.TempDir(), "webhooks")
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, Receiver{Name: "queue", File: file}, Receiver{Name: "full", File: file, Thresholds: []int{100}}, Receiver{Name: "web", File: file, Rules: []string{"web/*"}})
		f.outbox.add(event(1), event(2))
		time.Sleep(2500 * time.Millisecond) // between two readings of the outbox
		testkit.Must(t, os.Rename(file, file+".1"))
		f.outbox.add(event(3))
		time.Sleep(2 * time.Second)
		f.end()
	})
	for name, want := range map[string]int{file + ".1": 2, file: 1} {
		text, err := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var m message
		if err != nil || len(lines) != want || json.Unmarshal([]byte(lines[0]), &m) != nil || !strings.HasPrefix(m.ID, "evt_") || m.Data.Subject == "" {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	if _, err := New(Options{Receivers: []Receiver{{Name: "queue", File: "/nowhere/events"}}}); err == nil || !strings.Contains(err.Error(), "receiver queue: file: cannot write") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// A line that a crash cut off does not spoil the next one.
func TestLineCutOff(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	for content, want := range map[string]string{"": "{", "{}\n": "{}\n{", `{"id":"evt`: "{\"id\":\"evt\n{"} {
		testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
		s := newLineSender(name, nil)
		testkit.Must(t, s.try())
		e := event(1)
		answer := s.send(t.Context(), &e)
		if text, err := os.ReadFile(name); err != nil || answer.Problem != "" || !strings.HasPrefix(string(text), want) || !strings.HasSuffix(string(text), "}\n") {
			t.Errorf("after %q: %q, %+v, %v", content, text, answer, err)
		}
	}
}

// stuck is a pipe that nobody reads until it is opened.
type stuck struct{ open chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.open
	return len(p), nil
}

// A pipe that nobody reads fails its tries in time, and does not hold up the end of the service.
func TestStuckLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := stuck{make(chan struct{})}
		s := newLineSender(stdout, pipe)
		e := event(1)
		began := time.Now()
		first, second := s.send(t.Context(), &e), s.send(t.Context(), &e)
		if took := time.Since(began); took != 2*Timeout || !strings.Contains(first.Problem, "nobody reads") || second != first {
			t.Errorf("after %v: %+v, %+v", took, first, second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		if a := s.send(ctx, &e); a.Problem == "" || time.Since(began) != time.Second {
			t.Errorf("at the end: after %v %+v", time.Since(began), a)
		}
		close(pipe.open)
		if a := s.send(t.Context(), &e); a.Problem != "" {
			t.Errorf("when it is read again: %+v", a)
		}
	})
}

// The secrets are read again for each try; without the file the last ones stay valid.
func TestNewSecret(t *testing.T) {
	shop := newReceiver(t)
	at := shop.as(t, "shop")
	other := "whsec_" + strings.Repeat("B", 32)
	testkit.Must(t, os.WriteFile(at.SecretFile, []byte(other), 0o600))
	f := run(t, filepath.Join(t.TempDir(), "webhooks"), at)
	if _, _, err := f.Test(t.Context(), "shop"); err != nil || len(shop.problems) != 1 {
		t.Fatalf("another secret: %v, %v", err, shop.problems)
	}
	shop.problems = nil
	testkit.Must(t, os.WriteFile(at.SecretFile, []byte(other+"\n"+secretText), 0o600))
	id, answer, err := f.Test(t.Context(), "shop")
	got := shop.got(t)
	if last := got[len(got)-1]; err != nil || answer.Problem != "" || last.id != id || last.body.Type != TestType {
		t.Errorf("%v, %+v: %+v", err, answer, last)
	}
	testkit.Must(t, os.Remove(at.SecretFile))
	if _, answer, err := f.Test(t.Context(), "shop"); err != nil || answer.Problem != "" {
		t.Errorf("without the file: %v, %+v", err, answer)
	}
	shop.got(t)
}

// An event that is too large for a webhook is given up, and stays in the list.
func TestTooLarge(t *testing.T) {
	shop, at, path := newShop(t, nil)
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		large := event(1)
		large.Subject = "user=" + strings.Repeat("x", 20_000)
		f.outbox.add(large)
		time.Sleep(time.Minute)
		if failed := f.list(t, Failed); len(failed) != 1 || !strings.Contains(failed[0].Problem, "at most 19999") {
			t.Errorf("failed are %d", len(failed))
		}
	})
	if n := len(shop.got(t)); n != 0 {
		t.Errorf("%d webhooks were sent", n)
	}
}

// Of a receiver that is down only so many events wait; what comes then is dropped for it and counted. One that works
// gets all, and of those that it has and of those that were given up the oldest are forgotten.
func TestCrowd(t *testing.T) {
	const keep, pages, each = 50, 30, 10
	gone, at, path := newShop(t, status(http.StatusInternalServerError))
	lines := Receiver{Name: "lines", File: filepath.Join(t.TempDir(), "events.jsonl")}
	synctest.Test(t, func(t *testing.T) {
		f := runKeeping(t, path, keep, at, lines)
		for page := range pages {
			for n := range each {
				f.outbox.add(event(page*each + n))
			}
			time.Sleep(10 * time.Second)
		}
		s := f.Stats()
		if s["shop"].Waiting != keep || s["shop"].Dropped != pages*each-keep {
			t.Errorf("of the receiver that is down: %+v", s["shop"])
		}
		if s["lines"].Delivered != pages*each || s["lines"].Dropped != 0 {
			t.Errorf("of the one that works: %+v", s["lines"])
		}
		time.Sleep(2 * sweepEvery)
		if list, err := f.List(t.Context(), Query{State: Delivered, Limit: 1}); err != nil || list.Receivers["lines"].Delivered != keep {
			t.Errorf("kept are %+v, %v", list.Receivers, err)
		}
		gone.answers(status(http.StatusGone))
		time.Sleep(3 * time.Hour)
		f.outbox.add(event(9998), event(9999))
		time.Sleep(2 * sweepEvery)
		if s := f.Stats()["shop"]; s.Waiting != 0 || s.Dropped != pages*each-keep+2 || len(f.list(t, Failed)) != keep {
			t.Errorf("of the one that is gone: %+v", s)
		}
		f.end()
		if log := f.log.String(); !strings.Contains(log, "events dropped") || !strings.Contains(log, "given up long ago") || strings.Contains(log, "receiver=lines") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// What ended long ago is deleted as fast as it came, also if there is much of it.
func TestSweepAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "webhooks")
		file, err := OpenFile(path)
		testkit.Must(t, err)
		testkit.Must(t, file.update(func(c *change) error {
			for n := range 10 * batch {
				if err := c.put(nil, &Delivery{Receiver: "lines", Event: event(n), State: Delivered, Result: Result{Tried: time.Now()}}); err != nil {
					return err
				}
			}
			return nil
		}))
		testkit.Must(t, file.Close())
		time.Sleep(KeepDelivered)
		f := run(t, path, Receiver{Name: "lines", File: filepath.Join(t.TempDir(), "events.jsonl")})
		time.Sleep(sweepEvery)
		if n := len(f.list(t, Delivered)); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// What was retried by hand or deleted by the sweep of another receiver, after a sweep read it, is not deleted.
func TestSweepRace(t *testing.T) {
	f, err := OpenFile(filepath.Join(t.TempDir(), "webhooks"))
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	testkit.Must(t, f.update(func(c *change) error {
		for n := range 3 {
			if err := c.put(nil, &Delivery{Receiver: "shop", Event: event(n), State: Failed, Result: Result{Tried: time.Now()}}); err != nil {
				return err
			}
		}
		return nil
	}))
	drop, _, err := f.ended(time.Now(), 1)
	if err != nil || len(drop) != 2 {
		t.Fatalf("%+v, %v", drop, err)
	}
	n, err := f.Retry(t.Context(), "shop", drop[0].Event.ID)
	if n != 1 || err != nil {
		t.Fatalf("%d are retried, %v", n, err)
	}
	for range 2 {
		testkit.Must(t, f.update(func(c *change) error { return c.remove(drop) }))
	}
	claimed, err := f.Claim(t.Context(), Claim{Receiver: "shop", Max: 4, Lease: time.Hour, Keep: 3})
	if err != nil || len(claimed.Deliveries) != 1 || claimed.Deliveries[0].Event != drop[0].Event || claimed.Status.Waiting != 1 || claimed.Status.Failed != 1 {
		t.Errorf("claimed %+v, %v", claimed, err)
	}
}
