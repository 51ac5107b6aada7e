package pace

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"stint"
)

// Defaults of TransportOptions.
const (
	DefaultMaxPause = 5 * time.Minute
	DefaultName     = "client"
)

// TransportOptions configure which requests share a limit, and the bounds for what servers ask. The zero
// TransportOptions limit each host and never retry.
type TransportOptions struct {
	// Base sends the requests. If nil, it is http.DefaultTransport.
	Base http.RoundTripper

	// Key returns the key of a request, such as its host and a tenant. Requests with the same key
	// share one limit and the pauses of their server. A request with key "" is sent at once and not
	// limited. If nil, the key is the host and port of the URL.
	Key func(*http.Request) string

	// Name is the prefix of the keys in the store. Transports with the same name and store share one
	// limit. "" means DefaultName.
	Name string

	// MaxRetries is the maximum number of retries after 429, or after 503 with Retry-After; the
	// retry is sent after the time that the server asked for. A request with a body is retried only
	// if it has GetBody, and no request is retried whose deadline is before that time: then the
	// answer is returned unchanged. 0 means no retries.
	MaxRetries int

	// MaxPause is the longest pause that a server can request at a time: longer times in
	// Retry-After or a reset are cut to this. 0 means DefaultMaxPause. With a larger value a faulty
	// server can block its clients for longer.
	MaxPause time.Duration
}

// Transport is an http.RoundTripper that waits until a request may be sent. All its callers share
// one limit for each host, in order of arrival, and what that host reports:
//
//   - A 429 or 503 with Retry-After, in seconds or as a date, pauses all requests to
//     the host for that time. A 429 without a time pauses them for one second, and
//     for twice as long with each retry.
//   - RateLimit: "name";r=5;t=10 (draft-ietf-httpapi-ratelimit-headers) allows five
//     more requests in the next ten seconds, less those under way, which the server
//     may not have counted yet. The next answer has a new report.
//   - X-RateLimit-Remaining and X-RateLimit-Reset have the same effect; the time may be
//     in Unix seconds, Unix milliseconds or seconds from now.
//   - At the end of a pause, or of a time in which nothing was left, one request is
//     sent as a probe. The others wait for its answer; then as many are sent as it
//     reports. If it has no report, each answer that is not a refusal allows two more.
//
// A waiting request ends with its context. A request whose deadline is before its turn is not sent
// and fails immediately with a RefusedError. If the store fails, its error is returned and the
// request is not sent, because it could not be counted.
//
// A Transport is safe for concurrent use, never modifies a request, and starts no goroutine. The
// zero Transport is not usable; see [NewTransport].
type Transport struct {
	store   stint.Store
	limit   *stint.Limit
	options TransportOptions

	mu      sync.Mutex
	hosts   map[string]*host
	sweepAt int // number of hosts at which idle ones are removed
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport with the state of its limit in store. With a nil limit it only
// follows the limits of servers. It panics for the zero Limit.
func NewTransport(store stint.Store, limit *stint.Limit, options TransportOptions) *Transport {
	if limit == nil {
		limit = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	}
	if err := limit.Check(); err != nil {
		panic("stint/pace: " + err.Error())
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

// RoundTrip sends a request when its limit allows it.
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
				_ = r.Body.Close() // a RoundTripper must always close it
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
		// Reading a short body to its end allows the connection to be reused.
		_, _ = io.CopyN(io.Discard, answer.Body, maxDrain)
		_ = answer.Body.Close()
		r = next
	}
}

// maxDrain is the maximum number of bytes read of a discarded answer.
const maxDrain = 64 << 10

// send sends a request now and updates the host from the answer.
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
		// Retry-After takes precedence over the RateLimit fields.
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

// next returns the request for a retry after an answer; nil for none.
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
			return nil // return the answer, which says more than this error
		}
		next.Body = body
	}
	return next
}

// CloseIdleConnections calls CloseIdleConnections of the base transport, if it has this method.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
