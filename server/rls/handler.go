package rls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
)

// holdMargin is the minimum time between sending a delayed answer and the caller's deadline.
const holdMargin = 2 * time.Millisecond

// Options are the options of a Handler. The zero value answers as envoyproxy/ratelimit does without
// settings: without header fields and metadata.
type Options struct {
	// Headers are the presets of header fields for limits whose rules have none. Computing the
	// fields takes about as long as the decision.
	Headers []rule.Preset

	// Reset is the format of X-RateLimit-Reset in the preset legacy.
	Reset Reset

	// LimitHeaders are sent in addition to the presets; the zero value adds none.
	LimitHeaders LimitHeaders

	// Metadata fills dynamic_metadata with the request, the rules that decided, and the metadata of
	// the rules that let the request pass. It costs a few microseconds.
	Metadata bool

	// Grant is the number of requests that a descriptor is granted at once: its status has a quota
	// of this many requests, or of the remaining ones if fewer, and all of them are charged
	// immediately. 0 and 1 mean no quota. A client that supports quotas (Envoy itself does not yet)
	// sends fewer calls; units that it does not use before the quota ends are lost.
	Grant uint32

	// Shadow lets every request pass: the overall code is always OK. Each limit is decided
	// independently.
	Shadow bool

	// Quota treats all limits as in quota mode: a request is denied only if all of its limits deny
	// it.
	Quota bool

	// Tally makes the limits in descriptors count denied hits too, as envoyproxy/ratelimit does,
	// unless their domain is atomic. Rules have a setting of their own.
	Tally bool

	// OnStoreFailure decides the limits in descriptors if the store fails. Rules have a setting of
	// their own. stint.Local means stint.Deny here.
	OnStoreFailure stint.Failure
}

// Handler decides RateLimitRequests. It is safe for concurrent use.
//
// It decides a request by [limiter.Limiter.Decide] with the domain and the descriptors of the
// request and the cost hits_addend. It keeps no memory of a request after the answer.
type Handler struct {
	limiter        *limiter.Limiter
	options        Options
	defaultPresets web.Presets
	overrides      overrides
	stats          counts
	calls          sync.Pool // *Call, used by JSON
}

// New returns a handler that decides with l.
func New(l *limiter.Limiter, o Options) *Handler {
	h := &Handler{limiter: l, options: o, defaultPresets: presetsOf(o.Headers)}
	h.calls.New = func() any { return new(Call) }
	return h
}

// Call holds the memory for one request and its answer. The zero Call is ready for use. A Call
// reuses its memory, so transports keep Calls in a pool. It must not be used by several goroutines
// at once.
type Call struct {
	// RequestID names the next request in logs, see [limiter.Request.ID]. It may be empty.
	RequestID string

	message  message
	request  limiter.Request
	verdict  limiter.Verdict
	response rlsResponse
	fields   fields
	metadata metadata
	held     time.Duration // time to wait before the answer is sent
	left     time.Duration // time to wait that the deadline did not allow
	more     *limiter.Verdict
	out      []byte
}

// Delay returns how long to wait before sending the answer. It is 0 except for a leaky_bucket, which
// spaces requests. It never exceeds the deadline of the context given to Decide.
func (c *Call) Delay() time.Duration { return c.held }

// KeepsLittle reports whether c is small enough to keep in a pool. Drop a larger one; otherwise a
// few large requests would occupy memory for a long time.
func (c *Call) KeepsLittle() bool {
	return c.message.keepsLittle() && cap(c.response.statuses) <= keptDescriptors && cap(c.out) <= keptOut
}

// keptOut is the capacity of the largest answer buffer that is kept, in bytes.
const keptOut = 64 << 10

// The gRPC codes of errors.
const (
	unknownCode     = 2 // the code that envoyproxy/ratelimit uses for all errors
	invalidArgument = 3
)

// Error is the reason why there is no response.
type Error struct {
	// Code is the gRPC code: INVALID_ARGUMENT (3) for an invalid request, UNKNOWN (2) for errors
	// that envoyproxy/ratelimit reports with this code.
	Code uint32

	// Message is for the caller: the problem, its place, and how to correct it.
	Message string

	// Err is the internal cause, for logs; nil if the request was invalid.
	Err error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// Decide decides an encoded RateLimitRequest and returns an encoded RateLimitResponse. The response
// uses memory of c and is valid until c is used again. Decide does not keep request. The error is
// an [*Error].
//
// If the answer must be delayed, see [Call.Delay], and ctx would end before that, the request is
// denied and nothing is charged.
func (h *Handler) Decide(ctx context.Context, c *Call, request []byte) ([]byte, error) {
	c.held = 0
	if err := c.message.decode(request); err != nil {
		h.stats.service.Add(1)
		return nil, err
	}
	if err := h.decide(ctx, c); err != nil {
		return nil, err
	}
	var extra []byte
	if h.options.Metadata {
		extra = c.metadata.encode()
	}
	c.out = c.response.append(c.out[:0], &c.fields, extra)
	return c.out, nil
}

// Abandon refunds a call whose caller disconnected while the answer was delayed. It does nothing if
// the answer was not delayed.
func (h *Handler) Abandon(ctx context.Context, c *Call) {
	if c.held == 0 {
		return
	}
	undo, cancel := response.Afterwards(ctx)
	defer cancel()
	_ = h.limiter.Undo(undo, &c.verdict) // on failure the units refill later
}

// decide decides the message of c and fills its response.
func (h *Handler) decide(ctx context.Context, c *Call) error {
	c.held, c.left = 0, 0
	c.fields.forget()
	if err := h.ask(c); err != nil {
		h.stats.service.Add(1)
		return err
	}
	if err := h.limiter.Decide(ctx, &c.request, &c.verdict); err != nil {
		return h.failed(ctx, err)
	}
	v := &c.verdict
	if v.Allowed && v.Delay > 0 && !h.options.Shadow {
		h.hold(ctx, c)
	}
	h.conclude(c)
	if h.options.Grant > 1 && v.Allowed {
		h.grant(ctx, c)
	}
	if h.options.LimitHeaders != (LimitHeaders{}) {
		c.fields.originals(h.options.LimitHeaders, c)
	}
	c.fields.presets(h, c)
	if h.options.Metadata {
		c.metadata.describe(c)
	}
	return nil
}

// ask converts the message to a request for the limiter.
func (h *Handler) ask(c *Call) error {
	m := &c.message
	switch {
	case m.domain == "":
		return &Error{Code: unknownCode, Message: "rate limit domain must not be empty"}
	case len(m.descriptors) == 0:
		return &Error{Code: unknownCode, Message: "rate limit descriptor list must not be empty"}
	case h.limiter.Table() == nil && h.limiter.Catalog() == nil:
		return &Error{Code: unknownCode, Message: "no rate limit configuration loaded"}
	}
	c.request = limiter.Request{
		Domain: m.domain, ID: c.RequestID, Descriptors: c.request.Descriptors[:0], OnFailure: h.options.OnStoreFailure,
		Each: h.options.Shadow, Quota: h.options.Quota, Debt: true,
	}
	c.request.Descriptors = slices.Grow(c.request.Descriptors, len(m.descriptors))
	for i := range m.descriptors {
		d := m.extraOf(i)
		asked := limiter.Descriptor{Entries: m.entriesOf(i), Cost: max(1, m.hits), Refund: d.negative}
		if d.counted {
			if d.hits > stint.MaxCost {
				return &Error{Code: invalidArgument, Message: fmt.Sprintf("descriptor %d: hits_addend is %d; the most is %d", i, d.hits, uint32(stint.MaxCost))}
			}
			asked.Cost = uint32(d.hits)
		}
		if d.limited {
			limit, tally, err := h.overrides.limit(&d.override)
			if err != nil {
				return &Error{Code: invalidArgument, Message: fmt.Sprintf("descriptor %d: limit: %s", i, err)}
			}
			asked.Limit = limit
			if h.options.Tally {
				asked.Tally = tally
			}
		}
		c.request.Descriptors = append(c.request.Descriptors, asked)
	}
	return nil
}

// failed returns the error for a request that the store could not decide. The message does not
// contain the internal cause.
func (h *Handler) failed(ctx context.Context, err error) error {
	if errors.Is(err, stint.ErrWrongCall) {
		h.stats.service.Add(1)
		return &Error{Code: invalidArgument, Message: "descriptors of the same entries bring different limits of the same period: send several requests", Err: err}
	}
	h.stats.store.Add(1)
	message := "the store could not decide"
	if ctx.Err() != nil {
		message = "the store did not decide in time"
	}
	return &Error{Code: unknownCode, Message: message, Err: err}
}

// hold sets how long to delay the answer. If the caller's deadline is earlier, it denies the
// request and refunds it.
func (h *Handler) hold(ctx context.Context, c *Call) {
	v := &c.verdict
	deadline, ok := ctx.Deadline()
	if !ok || time.Until(deadline) > v.Delay+holdMargin {
		c.held = v.Delay
		return
	}
	c.left = v.Delay
	undo, cancel := response.Afterwards(ctx)
	defer cancel()
	_ = h.limiter.Undo(undo, v) // on failure the units refill later
	for i := range v.Results {
		r := &v.Results[i]
		if r.Delay > 0 && (r.Delay == v.Delay || time.Until(deadline) <= r.Delay+holdMargin) {
			r.Allowed, r.RetryAfter = false, r.Delay
		}
		if r.Limit != stint.NoLimit {
			r.Remaining = min(r.Limit, r.Remaining+int64(c.request.Descriptors[i].Cost))
		}
	}
}

// conclude converts the verdict to the response.
func (h *Handler) conclude(c *Call) {
	v, r := &c.verdict, &c.response
	r.over = !v.Allowed || c.left > 0
	if r.over && h.options.Shadow {
		r.over = false
		h.stats.shadowed.Add(1)
	}
	r.statuses = slices.Grow(r.statuses[:0], len(v.Results))
	for i := range v.Results {
		r.statuses = append(r.statuses, status{})
		r.statuses[i].set(&v.Results[i], c.message.extraOf(i))
	}
}

// set fills the status of a descriptor from its result.
func (s *status) set(r *limiter.Result, d *extra) {
	s.over = !r.Allowed
	if r.Limit == stint.NoLimit {
		if r.Rule != nil {
			s.remaining = math.MaxUint32
		}
		return
	}
	switch {
	case r.Rule != nil:
		s.limit = shapeOf(r.Rule)
	case d.limited:
		s.limit = d.override.shape()
	default: // denied by a list
		return
	}
	s.numbered = true
	s.remaining = uint32(min(r.Remaining, math.MaxUint32))
	s.reset = web.Seconds(r.ResetAfter)
}

// Stats are counters of events that other metrics do not cover.
type Stats struct {
	ServiceErrors uint64 // requests that are invalid, or arrive before rules are loaded
	StoreErrors   uint64 // requests that the store failed to decide
	Shadowed      uint64 // requests that passed only because of Options.Shadow
}

type counts struct{ service, store, shadowed atomic.Uint64 }

// Stats returns the counters since New.
func (h *Handler) Stats() Stats {
	return Stats{ServiceErrors: h.stats.service.Load(), StoreErrors: h.stats.store.Load(), Shadowed: h.stats.shadowed.Load()}
}
