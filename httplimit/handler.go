package httplimit

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/line"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule"
	"stint/rule/denial"
)

// asker decides requests by its limits.
type asker interface {
	// ask decides r and stores the result in s. The error is the reason why it could not be
	// decided.
	ask(r *http.Request, s *scratch) (request.Outcome, error)

	// OnFailure returns the policy to apply if the store failed, and its rule.
	OnFailure(s *request.Scratch) (rule.Failure, *rule.Rule)

	response.Namer
}

// handler is the middleware around one handler.
type handler struct {
	asker
	next    Next
	limiter *limiter.Limiter
	domain  string // "" for a single limit
	options Options
	presets web.Presets
	refuser *response.Refuser
	pool    *sync.Pool // of *scratch
}

// scratch is the memory for one request.
type scratch struct {
	request.Scratch
	attributes attributes
	handler    *handler // whose memory it is now
	denied     bool     // the denial has begun
	outer      *lent    // of the middleware of the phase Early around this one; nil: there is none
	same       *lent    // of that with the same domain; nil: there is none
	earlier    *Earlier // of the request; nil: its context has it
	caller     caller
	place      *line.Place // in a line; nil: it does not wait
	blocked    blocked     // the limit that holds the request
	again      bool        // the request is to be read again before its next decision
	policies   []web.Policy
	fields     web.Fields
	refusal    response.Refusal
}

// newHandler returns a handler without a next one.
func newHandler(a asker, l *limiter.Limiter, domain string, o Options) *handler {
	if o.Headers == nil {
		o.Headers = []rule.Preset{rule.IETF, rule.Legacy}
	}
	h := &handler{
		asker: a, limiter: l, domain: domain, options: o, presets: response.Presets(o.Headers),
		refuser: response.NewRefuser(response.RefusalText{
			Status: o.Status, Code: o.Code, Message: o.Message, Never: o.NeverMessage, Reset: o.Reset,
		}),
	}
	h.pool = &sync.Pool{New: func() any {
		s := new(scratch)
		s.Hold = func(v *limiter.Verdict) denial.Mode { return h.hold(s, v) }
		return s
	}}
	return h
}

// middleware returns a function that wraps handlers with a handler.
func middleware(h *handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		one := *h
		one.next = plain{next}
		return &one
	}
}

func finder(o *Options) *web.ClientFinder {
	return web.NewClientFinder(web.TrustConfig{Trusted: o.Trusted, TrustLocal: o.TrustUnixSocket, Header: o.ForwardedHeader})
}

// ServeHTTP passes a request to the next handler if its limits allow it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = h.serve(w, r, h.next) // which returns no error
}

// serve passes a request to next if its limits allow it, and returns the error of next.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, next Next) error {
	if h.options.Skip != nil && h.options.Skip(r) {
		return next.ServeHTTP(w, r)
	}
	s := h.pool.Get().(*scratch)
	h.findEarlier(r, s)
	what, err := h.ask(r, s)
	if what == request.Decided && s.Verdict.Pending {
		var answered bool
		if what, err, answered = h.excess(w, r, s); answered {
			h.release(s)
			return nil
		}
	}
	if what == request.Decided && s.Verdict.Reserved() {
		return h.serveWatched(w, r, s, next)
	}
	pass := h.enter(w, r, s, what, err)
	if pass {
		h.observe(r, s, true)
	}
	if pass && what != request.Undecided {
		s.attributes.setCookies(w.Header())
	}
	if pass && h.options.Phase == rule.Early {
		defer h.release(s)
		return h.pass(w, r, s, next)
	}
	h.release(s)
	if pass {
		return next.ServeHTTP(w, r)
	}
	return nil
}

// contextOf returns the context for the decision about a request.
func (h *handler) contextOf(r *http.Request) context.Context {
	if h.options.Context != nil {
		return h.options.Context(r)
	}
	return r.Context()
}

// observe calls Options.Observe.
func (h *handler) observe(r *http.Request, s *scratch, pass bool) {
	if h.options.Observe != nil {
		h.options.Observe(r, &s.Verdict, pass)
	}
}

// release puts the memory of a request into the pool.
func (h *handler) release(s *scratch) {
	s.attributes, s.caller, s.outer, s.same, s.earlier = attributes{}, caller{}, nil, nil, nil
	s.Clear()
	h.pool.Put(s)
}

// enter reports whether a request with this outcome may pass. It answers a request that may not.
func (h *handler) enter(w http.ResponseWriter, r *http.Request, s *scratch, what request.Outcome, err error) bool {
	switch what {
	case request.Undecided:
		return h.failed(w, r, s, err)
	case request.NoLimit:
		return true
	case request.Unidentified:
		h.refuser.Unidentified(&s.refusal, r.Header["Accept"])
		h.write(w, r, s)
		return false
	case request.Invalid:
		h.refuser.Invalid(&s.refusal, r.Header["Accept"], err)
		h.write(w, r, s)
		return false
	}
	return h.obey(w, r, s)
}

// obey applies the verdict: it waits for the delay and reports whether the request may pass. It
// answers a request that may not.
func (h *handler) obey(w http.ResponseWriter, r *http.Request, s *scratch) bool {
	if s.Verdict.Listed != nil {
		h.name(w, s)
		if !s.Verdict.Allowed {
			h.refuseListed(w, r, s)
		}
		return s.Verdict.Allowed
	}
	if s.Verdict.Unmatched && !s.Verdict.Allowed {
		h.refuseUnmatched(w, r, s)
		return false
	}
	if s.Verdict.Penalized {
		h.refusePenalized(w, r, s)
		return false
	}
	var denied int
	s.policies, denied = response.Policies(s.policies, &s.Verdict, h.presets, h.asker)
	if s.Verdict.Allowed {
		left, err := response.Delay(r.Context(), h.limiter, &s.Verdict)
		if err != nil {
			h.report(r, err)
		}
		if left <= 0 {
			s.fields.Answer(h.shown(s), -1, h.options.Reset)
			s.fields.Put(w.Header())
			h.name(w, s)
			if s.Verdict.Over && h.options.OverHeader != "" {
				w.Header()[h.options.OverHeader] = []string{"true"}
			}
			return true
		}
		denied = response.DenyDelayed(s.policies, &s.Verdict, left)
	} else if response.StoreUnavailable(&s.Verdict) {
		h.refuseUnavailable(w, r, s)
		return false
	}
	h.refuse(w, r, s, denied)
	return false
}

// failed applies the failure policy and reports whether the request passes.
func (h *handler) failed(w http.ResponseWriter, r *http.Request, s *scratch, err error) bool {
	h.report(r, err)
	policy, by := h.OnFailure(&s.Scratch)
	s.Verdict.Decision = stint.Decision{Allowed: policy == rule.Allow, Degraded: true}
	s.Verdict.Rule = by
	if s.Verdict.Allowed {
		h.degraded(w, s)
		return true
	}
	s.Verdict.RetryAfter = response.RetryUnavailable
	h.refuseUnavailable(w, r, s)
	return false
}

// degraded sets the header for answers of a failure policy, if configured.
func (h *handler) degraded(w http.ResponseWriter, s *scratch) {
	if s.Verdict.Degraded && h.options.DegradedHeader != "" {
		w.Header()[h.options.DegradedHeader] = []string{"true"}
	}
}

// name sets the header with the deciding policy, and that for answers of a failure policy, if
// configured.
func (h *handler) name(w http.ResponseWriter, s *scratch) {
	h.degraded(w, s)
	if h.options.PolicyHeader == "" {
		return
	}
	if name := response.Policy(&s.Verdict, h.asker); name != "" {
		w.Header()[h.options.PolicyHeader] = []string{web.Quoted(name)}
	}
}

// report calls Options.OnError, unless the error is that the client disconnected.
func (h *handler) report(r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return
	}
	if h.options.OnError != nil {
		h.options.OnError(r, err)
	}
}
