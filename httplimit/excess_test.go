package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/limiter/line"
	"stint/rule/denial"
)

// queue is a queue of a program of its own.
type queue struct {
	mu       sync.Mutex
	held     map[line.ID]int
	accepted []httplimit.Excess
	err      error // what Accept returns
}

func (q *queue) Holds(id line.ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held[id] > 0
}

func (q *queue) Accept(w http.ResponseWriter, _ *http.Request, e *httplimit.Excess) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if q.held == nil {
		q.held = map[line.ID]int{}
	}
	q.held[e.Line]++
	one := *e
	one.Descriptors = nil
	for _, d := range e.Descriptors {
		one.Descriptors = append(one.Descriptors, limiter.Descriptor{Entries: append(d.Entries[:0:0], d.Entries...), Cost: d.Cost})
	}
	q.accepted = append(q.accepted, one)
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// done takes all requests out of the queue.
func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = nil
}

// queueRules store what is over of each user, and of each one who asks for it.
const queueRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: users, requests: 1, per: 1m, excess: {mode: queue, body: 10}}
  - key: asker
    rate_limit: {name: askers, requests: 1, per: 1m, excess: {mode: queue, when: asked, methods: [PUT], full: 503}}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{request_headers: {header_name: x-asker, descriptor_key: asker}}]
`

// post returns a request with a method and a body.
func post(method, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:1"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// Only requests that can be sent later are stored; all others are denied as if there were no queue.
func TestQueueStores(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request *http.Request
		want    int
	}{
		{"a write", post("POST", "0123456789", "X-User", "bob"), 202},
		{"without a body", post("DELETE", "", "X-User", "bob"), 202},
		{"a larger body", post("POST", "0123456789a", "X-User", "bob"), 429},
		{"a read", post("GET", "", "X-User", "bob"), 429},
		{"an upgrade", post("POST", "", "X-User", "bob", "Upgrade", "websocket"), 429},
		{"a call of gRPC", post("POST", "", "X-User", "bob", "Content-Type", "application/grpc"), 200},
		{"not asked for", post("PUT", "", "X-Asker", "bob"), 429},
		{"asked for something else", post("PUT", "", "X-Asker", "bob", "Prefer", "return=minimal"), 429},
		{"asked for", post("PUT", "", "X-Asker", "bob", "Prefer", "return=minimal, Respond-Async; x=1, wait=10"), 202},
		{"asked for in a second field", post("PUT", "", "X-Asker", "bob", "Prefer", "wait=10", "Prefer", "respond-async"), 202},
		{"another method", post("POST", "", "X-Asker", "bob", "Prefer", "respond-async"), 429},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := new(queue)
			h := byRules(t, (&clock{1767225600_000_000}).store(), queueRules, httplimit.Options{Queue: q})
			if w := get(h, "192.0.2.1:1", "/", "X-User", "bob", "X-Asker", "bob"); w.Code != http.StatusOK {
				t.Fatal(w.Code)
			}
			w := send(h, tt.request)
			if w.Code != tt.want || (len(q.accepted) == 1) != (tt.want == 202) {
				t.Errorf("status %d, want %d; %d stored", w.Code, tt.want, len(q.accepted))
			}
			if tt.want == 200 && w.Header().Get("Grpc-Status") != "8" {
				t.Errorf("%v", w.Header())
			}
		})
	}
}

// What the queue gets: the line and its settings, what to take later, and whose request it is.
func TestQueueGets(t *testing.T) {
	q := new(queue)
	h := byRules(t, (&clock{1767225600_000_000}).store(), queueRules, httplimit.Options{
		Queue: q, Identity: func(*http.Request) string { return "proved" },
	})
	get(h, "192.0.2.1:1", "/", "X-User", "bob")
	send(h, post("POST", "", "X-User", "bob"))
	get(h, "192.0.2.1:1", "/", "X-User", "eve")
	send(h, post("POST", "", "X-User", "eve"))
	if len(q.accepted) != 2 {
		t.Fatalf("%d stored", len(q.accepted))
	}
	e, other := q.accepted[0], q.accepted[1]
	if e.Line.Domain != "api" || e.Line.Rule != "users" || e.Line.Key == [16]byte{} || e.Line == other.Line {
		t.Errorf("lines %v and %v", e.Line, other.Line)
	}
	if e.Settings.Mode != denial.Queue || e.Settings.Body != 10 || e.Domain != "api" || e.Client.String() != "192.0.2.1" ||
		e.Identity != "proved" || e.RetryAfter != time.Minute {
		t.Errorf("%+v", e)
	}
	if len(e.Descriptors) != 1 || e.Descriptors[0].Cost != 1 || len(e.Descriptors[0].Entries) != 1 || e.Descriptors[0].Entries[0].Value != "bob" {
		t.Errorf("descriptors %+v", e.Descriptors)
	}
}

// While the queue has requests of a key, later ones come behind them, even when the limit has room.
// Those that cannot be stored are decided by the limit alone.
func TestQueueInOrder(t *testing.T) {
	q, now := new(queue), &clock{1767225600_000_000}
	h := byRules(t, now.store(), queueRules, httplimit.Options{Queue: q})
	for i, tt := range []struct {
		request *http.Request
		want    int
	}{
		{post("POST", "", "X-User", "bob"), 200},
		{post("POST", "", "X-User", "bob"), 202},
		{post("POST", "", "X-User", "bob"), 202}, // a minute later
		{post("POST", "", "X-User", "eve"), 200},
		{post("GET", "", "X-User", "bob"), 200},
		{post("POST", "", "X-User", "bob"), 202}, // the queue is empty now, and the limit used up
		{post("POST", "", "X-User", "bob"), 200}, // another minute later
	} {
		switch i {
		case 2:
			now.now += 60_000_000
		case 5:
			q.done()
		case 6:
			q.done()
			now.now += 60_000_000
		}
		if w := send(h, tt.request); w.Code != tt.want {
			t.Errorf("request %d: status %d, want %d", i, w.Code, tt.want)
		}
	}
}

// A queue that has no place, or fails.
func TestQueueRefuses(t *testing.T) {
	for _, tt := range []struct {
		name          string
		err           error
		user          string
		held          bool
		status        int
		code          string
		retry         string
		reportedError bool
	}{
		{"full", httplimit.ErrQueueFull, "X-User", false, 429, "excess_full", "60", false},
		{"full, with a status of its own", httplimit.ErrQueueFull, "X-Asker", false, 503, "excess_full", "60", false},
		{"a body that is too large", httplimit.ErrTooLarge, "X-User", false, 429, "rate_limited", "60", false},
		{"a body that is too large, behind others", httplimit.ErrTooLarge, "X-User", true, 429, "excess_full", "1", false},
		{"a wrong body", fmt.Errorf("%w: chunk", httplimit.ErrBody), "X-User", false, 400, "bad_body", "", false},
		{"a wrong body, behind others", fmt.Errorf("%w: chunk", httplimit.ErrBody), "X-User", true, 400, "bad_body", "", false},
		{"a failure", errors.New("disk"), "X-User", false, 429, "rate_limited", "60", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, now := new(queue), &clock{1767225600_000_000}
			var reported error
			h := byRules(t, now.store(), queueRules, httplimit.Options{Queue: q, OnError: func(_ *http.Request, err error) { reported = err }})
			r := func() *http.Request { return post("PUT", "", tt.user, "bob", "Prefer", "respond-async") }
			send(h, r())
			if tt.held {
				send(h, r())
				now.now += 60_000_000
			}
			q.err = tt.err
			w := send(h, r())
			if w.Code != tt.status || !strings.Contains(w.Body.String(), `"`+tt.code+`"`) || field(w, "Retry-After") != tt.retry {
				t.Errorf("%s", dump(w))
			}
			if (reported != nil) != tt.reportedError {
				t.Errorf("reported: %v", reported)
			}
		})
	}
}

// A client that disconnected is no failure: nothing is reported, observed or kept.
func TestQueueClientGone(t *testing.T) {
	for _, err := range []error{fmt.Errorf("%w: EOF", httplimit.ErrBody), fmt.Errorf("storing: %w", context.Canceled)} {
		var reported error
		q := new(queue)
		h := byRules(t, (&clock{1767225600_000_000}).store(), queueRules, httplimit.Options{Queue: q, OnError: func(_ *http.Request, err error) { reported = err }})
		send(h, post("POST", "", "X-User", "bob"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q.err = err
		w := send(h, post("POST", "", "X-User", "bob").WithContext(ctx))
		if want := map[bool]int{true: 499, false: 429}[errors.Is(err, httplimit.ErrBody)]; w.Code != want || reported != nil {
			t.Errorf("%v: %s, reported %v", err, dump(w), reported)
		}
	}
}

// Drop comes before queue, and queue before wait, whichever limit denies first.
func TestExcessOrder(t *testing.T) {
	const file = `
domain: api
descriptors:
  - {key: drop, rate_limit: {name: drop, requests: 1, per: 1m}}
  - {key: queue, rate_limit: {name: queue, requests: 1, per: 1m, excess: queue}}
  - {key: wait, rate_limit: {name: wait, requests: 1, per: 1m, excess: {mode: wait, max_wait: 1s}}}
  - {key: debt, rate_limit: {name: debt, requests: 10, per: 1m, overdraw: true}}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: wait, descriptor_key: wait}}]
    - actions: [{request_headers: {header_name: queue, descriptor_key: queue}}]
    - actions: [{request_headers: {header_name: drop, descriptor_key: drop}}]
    - actions: [{request_headers: {header_name: debt, descriptor_key: debt}}]
`
	for _, tt := range []struct {
		used, asked string // headers
		want        string
	}{
		{"wait", "wait", "429 excess_full"},
		{"queue", "queue", "202 "},
		{"drop", "drop", "429 rate_limited"},
		{"wait queue", "wait queue", "202 "},
		{"wait drop", "wait drop", "429 rate_limited"},
		{"queue drop", "queue drop", "429 rate_limited"},
		{"wait queue drop", "wait queue drop", "429 rate_limited"},
		{"wait", "wait queue drop", "429 excess_full"},
		{"queue", "wait queue drop", "202 "},
		{"wait", "wait debt", "429 rate_limited"}, // each try would be debited
		{"queue", "queue debt", "429 rate_limited"},
	} {
		h := byRules(t, (&clock{1767225600_000_000}).store(), file, httplimit.Options{Queue: new(queue)})
		with := func(names string) *http.Request {
			r := post("POST", "")
			for name := range strings.FieldsSeq(names) {
				r.Header.Set(name, "x")
			}
			return r
		}
		for name := range strings.FieldsSeq(tt.used) {
			send(h, with(name))
		}
		w := send(h, with(tt.asked))
		got := w.Result().Status[:4]
		for _, code := range []string{"excess_full", "rate_limited"} {
			if strings.Contains(w.Body.String(), `"`+code+`"`) {
				got += code
			}
		}
		if got != tt.want {
			t.Errorf("%s used up, %s asked: %q, want %q", tt.used, tt.asked, got, tt.want)
		}
	}
}

// An observer learns that a request is queued before its answer is sent.
func TestQueuedIsObserved(t *testing.T) {
	var seen []string
	q := new(queue)
	h := byRules(t, (&clock{1767225600_000_000}).store(), queueRules, httplimit.Options{
		Queue: q,
		Observe: func(_ *http.Request, v *limiter.Verdict, pass bool) {
			seen = append(seen, fmt.Sprint(v.Rule.Name, " ", v.Reason(), " ", pass))
		},
	})
	get(h, "192.0.2.1:1", "/", "X-User", "bob")
	w := &early{ResponseRecorder: httptest.NewRecorder(), before: func() { seen = append(seen, "answer") }}
	h.ServeHTTP(w, post("POST", "", "X-User", "bob"))
	q.err = httplimit.ErrQueueFull
	h.ServeHTTP(httptest.NewRecorder(), post("POST", "", "X-User", "bob"))
	want := []string{"users  true", "users queued false", "answer", "users excess_full false"}
	if !slices.Equal(seen, want) || w.Code != http.StatusAccepted {
		t.Errorf("observed %q, want %q", seen, want)
	}
}

// early calls before when the header is sent.
type early struct {
	*httptest.ResponseRecorder
	before func()
}

func (e *early) WriteHeader(status int) {
	e.before()
	e.ResponseRecorder.WriteHeader(status)
}
