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
	"stint/rule"
)

// holdMargin is how long before the caller's deadline a held answer must leave.
const holdMargin = 2 * time.Millisecond

// Options are the optional parts of a Handler. The zero value answers as
// envoyproxy/ratelimit does without settings: no header field, no metadata.
type Options struct {
	// Headers are the presets of header fields for the response, of limits whose rules
	// name none. Nil: those have none. Fields cost about as much as the decision.
	Headers []rule.Preset

	// Reset is how X-RateLimit-Reset of the preset legacy is written.
	Reset Reset

	// LimitHeaders are sent beside them; the zero value is none.
	LimitHeaders LimitHeaders

	// Metadata fills dynamic_metadata with the request, the rules that decided, and the
	// metadata of the rules that let it pass. It costs a few microseconds.
	Metadata bool

	// Grant is how many requests a descriptor is granted at once: its status carries a
	// quota of so many, or of what there is left if that is less, all of them charged
	// now. 0 and 1: no quota. A client that honours it (Envoy itself does not yet) asks
	// less often; what it does not use until the quota ends is lost.
	Grant uint32

	// Shadow lets every request pass at once: the overall code is OK whatever the limits
	// say, each of which is decided by itself.
	Shadow bool

	// Quota takes all limits for such in quota mode: a request is denied only if all
	// limits that it meets deny it.
	Quota bool

	// Tally counts the limits that descriptors bring as envoyproxy/ratelimit does, denied
	// hits too, unless their domain is atomic. Rules say it themselves.
	Tally bool

	// OnStoreFailure answers for the limits that descriptors bring where the store
	// cannot; rules say it themselves. stint.Local is stint.Deny.
	OnStoreFailure stint.Failure
}

// Handler answers RateLimitRequests. It is safe for concurrent use.
//
// A request is decided as [limiter.Limiter.Decide] says, with the domain and the
// descriptors that it names, at the cost of their hits_addend. Of what a request
// carries nothing is kept once it is answered.
type Handler struct {
	limiter   *limiter.Limiter
	options   Options
	silent    web.Presets
	overrides overrides
	stats     counts
	calls     sync.Pool // *Call, of JSON
}

// New returns a handler that decides by l.
func New(l *limiter.Limiter, o Options) *Handler {
	h := &Handler{limiter: l, options: o, silent: presetsOf(o.Headers)}
	h.calls.New = func() any { return new(Call) }
	return h
}

// Call is one request on its way from bytes to bytes, and the memory for it. The zero
// Call is ready; one that is used again keeps its memory, so whoever carries requests
// pools them. It belongs to one goroutine at a time.
type Call struct {
	message  message
	request  limiter.Request
	verdict  limiter.Verdict
	response rlsResponse
	fields   fields
	metadata metadata
	held     time.Duration // how long the answer is to be held
	left     time.Duration // how long it should have been held, where there was no time
	more     *limiter.Verdict
	out      []byte
}

// Hold returns how long the answer is to be held back before it is sent, 0 for nearly
// all: a leaky_bucket lets requests go one by one. It is never beyond the deadline of
// the context that Decide got.
func (c *Call) Hold() time.Duration { return c.held }

// KeepsLittle says whether c is small enough to wait for the next request. One that is
// not should be dropped, or a few large requests would hold their memory for long.
func (c *Call) KeepsLittle() bool {
	return c.message.keepsLittle() && cap(c.response.statuses) <= keptDescriptors && cap(c.out) <= keptOut
}

// keptOut is the largest answer whose memory waits for the next one.
const keptOut = 64 << 10

// The codes of gRPC that errors carry.
const (
	unknownCode     = 2 // what envoyproxy/ratelimit answers in all cases
	invalidArgument = 3
)

// Error says why there is no response.
type Error struct {
	// Code is that of gRPC: INVALID_ARGUMENT (3) for a request that is none, UNKNOWN (2)
	// for what envoyproxy/ratelimit answers so.
	Code uint32

	// Message is for the caller: what is wrong, where, and what to do.
	Message string

	// Err is what went wrong inside, for logs; nil where the request was at fault.
	Err error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns what went wrong inside.
func (e *Error) Unwrap() error { return e.Err }

// Decide answers an encoded RateLimitRequest with an encoded RateLimitResponse. The
// response is in c's memory and good until c is used again; request is read until
// Decide returns and not after. The error is an [*Error].
//
// Where the answer is to be held, see [Call.Hold], and ctx ends before that, the
// request is denied, and nothing of it is charged.
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

// Abandon gives back what a call took whose caller has gone while its answer was held.
// What was not held stays as it is.
func (h *Handler) Abandon(ctx context.Context, c *Call) {
	if c.held == 0 {
		return
	}
	undo, cancel := after(ctx)
	defer cancel()
	_ = h.limiter.Undo(undo, &c.verdict) // what cannot be given back refills later
}

// after returns a context for what has to be done after a request, whether or not it
// has ended: one second.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}

// decide answers the message of c into its response.
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

// ask turns the message into what the limiter is asked.
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
		Domain: m.domain, Descriptors: c.request.Descriptors[:0], OnFailure: h.options.OnStoreFailure,
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

// failed returns the error for a request that the store could not decide. What went
// wrong inside is not for the caller.
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

// hold says how long the answer is to be held. A request whose caller does not wait so
// long is denied, and what it took is given back.
func (h *Handler) hold(ctx context.Context, c *Call) {
	v := &c.verdict
	deadline, ok := ctx.Deadline()
	if !ok || time.Until(deadline) > v.Delay+holdMargin {
		c.held = v.Delay
		return
	}
	c.left = v.Delay
	undo, cancel := after(ctx)
	defer cancel()
	_ = h.limiter.Undo(undo, v) // what cannot be given back refills later
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

// conclude turns the verdict into the response.
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

// set makes the status of a descriptor from its result.
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
	default: // a list denies
		return
	}
	s.numbered = true
	s.remaining = uint32(min(r.Remaining, math.MaxUint32))
	s.reset = web.Seconds(r.ResetAfter)
}

// Stats are how often a handler did what its metrics cannot tell from decisions.
type Stats struct {
	ServiceErrors uint64 // requests that were none, or were decided by no rules
	StoreErrors   uint64 // requests that the store could not decide
	Shadowed      uint64 // requests that passed only because of Options.Shadow
}

type counts struct{ service, store, shadowed atomic.Uint64 }

// Stats returns what was counted since New.
func (h *Handler) Stats() Stats {
	return Stats{ServiceErrors: h.stats.service.Load(), StoreErrors: h.stats.store.Load(), Shadowed: h.stats.shadowed.Load()}
}
