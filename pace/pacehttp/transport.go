package pacehttp

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"stint"
)

// Defaults of Options.
const (
	DefaultMaxPause = 5 * time.Minute
	DefaultName     = "client"
)

// Options say what is limited together and how far servers are believed. The zero
// Options limit each host and never retry.
type Options struct {
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper

	// Key returns what a request is limited by, such as its host and a tenant; requests
	// with the same key share one limit and what their server says. "" is sent at once
	// and not limited. Nil: the host and port of the URL.
	Key func(*http.Request) string

	// Name is what the keys in the store begin with. Transports with the same name and
	// store keep one limit together. "": DefaultName.
	Name string

	// MaxRetries is how often a request is sent again that was answered by 429, or by
	// 503 with Retry-After, after the time that the server asked for. A request with a
	// body is only sent again if it has GetBody, and none whose deadline comes before
	// that time: then the answer is returned as it is. 0: never.
	MaxRetries int

	// MaxPause is the longest that a server is believed at a time: a longer Retry-After
	// or reset counts as this. 0: DefaultMaxPause. Raising it lets a faulty server hold
	// its callers for longer.
	MaxPause time.Duration
}

// Transport is an http.RoundTripper that waits until a request may be sent. All its
// callers share one limit for each host, first come first served, and what that host
// says of its own:
//
//   - a 429 or 503 with Retry-After, in seconds or as a date, pauses all requests to
//     the host for that time; a 429 that names no time pauses them for one second, and
//     for twice as long with each retry;
//   - RateLimit: "name";r=5;t=10 (draft-ietf-httpapi-ratelimit-headers) lets five more
//     be sent in the next ten seconds, less those under way, of which the server may
//     not know yet; the next answer says anew;
//   - so do X-RateLimit-Remaining and X-RateLimit-Reset, whose time may be in Unix
//     seconds, Unix milliseconds or seconds from now;
//   - when a pause ends, or the time in which nothing was left, one request is sent as
//     a probe. The others wait for its answer, and as many of them go as that says are
//     left. Where it does not say, each answer that is no refusal lets two more go.
//
// A request that is waiting ends with its context. One whose deadline comes before its
// turn is refused at once with an error that is a pace.RefusedError, and not sent. An
// error of the store is returned too: a request that could not be counted is not sent.
//
// It is safe for concurrent use, never modifies a request, and starts no goroutine.
// The zero Transport is not usable; see [NewTransport].
type Transport struct {
	store   stint.Store
	limit   *stint.Limit
	options Options

	mu      sync.Mutex
	hosts   map[string]*host
	sweepAt int // as many hosts are looked through
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport that counts in store. A nil limit sets none of its
// own, and only follows what the servers say. It panics for the zero Limit.
func NewTransport(store stint.Store, limit *stint.Limit, options Options) *Transport {
	if limit == nil {
		limit = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	}
	if err := limit.Check(); err != nil {
		panic("stint/pace/pacehttp: " + err.Error())
	}
	if options.Base == nil {
		options.Base = http.DefaultTransport
	}
	if options.Key == nil {
		options.Key = func(r *http.Request) string { return strings.ToLower(r.URL.Host) }
	}
	if options.Name == "" {
		options.Name = DefaultName
	}
	if options.MaxPause <= 0 {
		options.MaxPause = DefaultMaxPause
	}
	return &Transport{store: store, limit: limit, options: options, hosts: map[string]*host{}, sweepAt: leastSweep}
}

// RoundTrip sends a request once its limit allows it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name := t.options.Key(r)
	if name == "" {
		return t.options.Base.RoundTrip(r)
	}
	h := t.enter(name)
	defer t.leave(h)
	for retries := 0; ; retries++ {
		if err := h.pacer.Wait(r.Context(), 1); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // a RoundTripper closes it whatever happens
			}
			return nil, fmt.Errorf("waiting for the limit of %s: %w", name, err)
		}
		answer, err := t.send(h, r, retries)
		if err != nil {
			return nil, err
		}
		next := t.next(h, r, answer, retries)
		if next == nil {
			return answer, nil
		}
		// Reading a short body to its end lets the connection be used again.
		_, _ = io.CopyN(io.Discard, answer.Body, maxDrain)
		_ = answer.Body.Close()
		r = next
	}
}

// maxDrain is how much of an answer that is thrown away is read.
const maxDrain = 64 << 10

// send sends a request now and learns from the answer.
func (t *Transport) send(h *host, r *http.Request, retries int) (*http.Response, error) {
	number := t.depart(h)
	answer, err := t.options.Base.RoundTrip(r)
	if err != nil {
		t.arrive(h, number, advice{outcome: failed})
		return nil, err
	}
	a := read(answer, time.Now(), t.options.MaxPause)
	denied := answer.StatusCode == http.StatusTooManyRequests
	if !denied && a.retry == 0 {
		a.outcome = answered
	}
	switch {
	case a.retry > 0:
		// It comes before what the RateLimit fields say.
		h.pacer.Pause(a.retry)
		a.budget = false
	case denied && a.budget && a.left == 0:
		h.pacer.Pause(a.during)
	case denied:
		h.pacer.Pause(seconds(1<<min(retries, 30), t.options.MaxPause))
	}
	t.arrive(h, number, a)
	return answer, nil
}

// next returns the request to send after an answer; nil if there is none.
func (t *Transport) next(h *host, r *http.Request, answer *http.Response, retries int) *http.Request {
	asked := answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
	if !asked || retries >= t.options.MaxRetries || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return nil
	}
	if deadline, ok := r.Context().Deadline(); ok && time.Until(deadline) <= h.pacer.Paused() {
		return nil
	}
	next := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil // the answer says more than this error
		}
		next.Body = body
	}
	return next
}

// CloseIdleConnections does so in the base transport, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
