package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"stint"
	"stint/internal/clientip"
	"stint/internal/headers"
	"stint/limiter"
	"stint/rule"
)

// An asker puts a request to its limits.
type asker interface {
	// ask decides r into s.verdict. Where the outcome is not decided, or there is an
	// error, the verdict means nothing.
	ask(r *http.Request, s *scratch) (outcome, error)

	// name returns what users call the limit that was asked as a, and its limit.
	name(a *limiter.Asked) (string, *stint.Limit)

	// onFailure returns the policy that answers for s.verdict after an error, and the
	// rule that has it.
	onFailure(s *scratch) (rule.Failure, *rule.Rule)
}

// outcome is what became of the question.
type outcome uint8

const (
	decided      outcome = iota
	unasked              // no limit applies
	unidentified         // nobody knows whose bucket it is
)

// handler is one middleware around one handler.
type handler struct {
	asker
	next    http.Handler
	limiter *limiter.Limiter
	options Options
	presets headers.Presets
	pool    *sync.Pool // of *scratch

	denied, unknown, unavailable, listed *headers.Message
}

// scratch is the memory of one request.
type scratch struct {
	attributes  attributes
	described   []rule.Descriptor
	descriptors []limiter.Descriptor
	key         []byte
	request     limiter.Request
	verdict     limiter.Verdict
	policies    []headers.Policy
	fields      headers.Fields
	body        []byte
}

// middleware returns what puts a handler behind an asker.
func middleware(a asker, l *limiter.Limiter, o Options) func(http.Handler) http.Handler {
	o.Status = cmp.Or(o.Status, http.StatusTooManyRequests)
	if o.Headers == nil {
		o.Headers = []rule.Preset{rule.IETF, rule.Legacy}
	}
	h := handler{
		asker: a, limiter: l, options: o, presets: presets(o.Headers),
		pool: &sync.Pool{New: func() any { return new(scratch) }},
		denied: headers.NewMessage(cmp.Or(o.Code, DefaultCode), cmp.Or(o.Message, DefaultMessage),
			cmp.Or(o.NeverMessage, DefaultNeverMessage)),
		unknown:     headers.NewMessage("unidentified", "", "The sender of this request cannot be told."),
		listed:      headers.NewMessage("denied", "", "This client is not served."),
		unavailable: headers.NewMessage("limit_unavailable", "The limit could not be asked. Wait {wait} and try again.", ""),
	}
	return func(next http.Handler) http.Handler {
		one := h
		one.next = next
		return &one
	}
}

func finder(o *Options) *clientip.Finder {
	return clientip.New(clientip.Config{Trusted: o.Trusted, TrustLocal: o.TrustUnixSocket, Header: o.ForwardedHeader})
}

// presets returns the set of a list of presets.
func presets(list []rule.Preset) headers.Presets {
	var set headers.Presets
	for _, p := range list {
		switch p {
		case rule.IETF:
			set |= headers.IETF
		case rule.Legacy:
			set |= headers.Legacy
		case rule.Draft03:
			set |= headers.Draft03
		case rule.None:
		}
	}
	return set
}

// ServeHTTP passes a request on to the next handler if its limits allow.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.options.Skip == nil || !h.options.Skip(r) {
		s := h.pool.Get().(*scratch)
		pass := h.decide(w, r, s)
		s.attributes = attributes{}
		h.pool.Put(s)
		if !pass {
			return
		}
	}
	h.next.ServeHTTP(w, r)
}

// decide says whether the request may pass, after it waited as long as it has to.
// One that may not is answered.
func (h *handler) decide(w http.ResponseWriter, r *http.Request, s *scratch) bool {
	what, err := h.ask(r, s)
	switch {
	case err != nil:
		return h.failed(w, r, s, err)
	case what == unidentified:
		h.refuseUnknown(w, r, s)
		return false
	case what == unasked:
		return true
	case s.verdict.Listed != nil:
		if !s.verdict.Allowed {
			h.refuseListed(w, r, s)
		}
		return s.verdict.Allowed
	}
	denied := h.gather(s)
	if s.verdict.Allowed {
		left := h.hold(r, s)
		if left <= 0 {
			s.fields.Answer(s.policies, -1, h.options.Reset)
			s.fields.Put(w.Header())
			if s.verdict.Over && h.options.OverHeader != "" {
				w.Header()[h.options.OverHeader] = []string{"true"}
			}
			return true
		}
		denied = s.turnAway(left)
	}
	h.refuse(w, r, s, denied)
	return false
}

// gather lists the limits that have a part in the verdict as the outside sees
// them, and returns which one denied; -1 if none did.
func (h *handler) gather(s *scratch) (denied int) {
	s.policies = s.policies[:0]
	denied = -1
	for i := range s.verdict.Asked {
		a := &s.verdict.Asked[i]
		set := h.presets
		if a.Rule != nil {
			// One of several quotas denies only with all the others.
			if a.Rule.Shadow || a.Rule.Quota && a.Rule != s.verdict.Rule {
				continue
			}
			if a.Rule.Headers != nil {
				set = presets(a.Rule.Headers)
			}
		}
		name, limit := h.name(a)
		s.policies = append(s.policies, headers.Of(name, set, limit, &a.Decision))
		if denied < 0 && !s.verdict.Allowed && !a.Allowed && a.Rule == s.verdict.Rule && a.RetryAfter == s.verdict.RetryAfter {
			denied = len(s.policies) - 1
		}
	}
	return denied
}

// hold waits for as long as the verdict delays the request. It returns how much of
// that is left: nothing, or, where the request ends before, more, and then what was
// taken is given back.
func (h *handler) hold(r *http.Request, s *scratch) time.Duration {
	if s.verdict.Delay <= 0 {
		return 0
	}
	ctx, ready := r.Context(), time.Now().Add(s.verdict.Delay)
	if deadline, ok := ctx.Deadline(); !ok || ready.Before(deadline) {
		timer := time.NewTimer(s.verdict.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return 0
		case <-ctx.Done():
		}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := h.limiter.Undo(undo, &s.verdict); err != nil {
		h.report(r, err)
	}
	return max(time.Until(ready), 1)
}

// turnAway makes a refusal of a request that ended while it was held, and returns
// which limit held it.
func (s *scratch) turnAway(left time.Duration) (denied int) {
	for i := range s.policies {
		if s.policies[i].Delay == s.verdict.Delay {
			denied = i
			break
		}
	}
	p := &s.policies[denied]
	p.Allowed, p.RetryAfter, p.More = false, left, left
	s.verdict.Allowed, s.verdict.RetryAfter, s.verdict.Delay = false, left, 0
	return denied
}

// failed answers for a store that could not, and says whether the request passes.
func (h *handler) failed(w http.ResponseWriter, r *http.Request, s *scratch, err error) bool {
	h.report(r, err)
	policy, by := h.onFailure(s)
	if policy == rule.Allow {
		return true
	}
	s.verdict.Decision = stint.Decision{Degraded: true, RetryAfter: retryUnavailable}
	s.verdict.Rule = by
	h.refuseUnavailable(w, r, s)
	return false
}

func (h *handler) report(r *http.Request, err error) {
	if h.options.OnError != nil {
		h.options.OnError(r, err)
	}
}
