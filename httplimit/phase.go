package httplimit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/rule"
)

// Phase is when middleware decides a request: its position relative to authentication.
type Phase = rule.Phase

// Early is the phase before authentication, see Options.Phase.
const Early = rule.Early

// Next is a handler that may return an error, after which somebody else answers the request, such as a
// handler of Caddy.
type Next interface {
	// ServeHTTP answers the request, or returns an error.
	ServeHTTP(w http.ResponseWriter, r *http.Request) error
}

// plain is a handler of net/http as Next.
type plain struct{ next http.Handler }

// ServeHTTP never returns an error.
func (p plain) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p.next.ServeHTTP(w, r)
	return nil
}

// Gate is the middleware of [New] for servers whose handlers return errors. It is safe for
// concurrent use.
type Gate struct{ handler *handler }

// NewGate returns a gate that limits by the rules of a domain in the table of l, see [New].
func NewGate(l *limiter.Limiter, domain string, options Options) *Gate {
	return &Gate{newRules(l, domain, options)}
}

// Serve passes a request to next if its limits allow it, and returns the error of next. Otherwise it
// answers the request and returns nil.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, next Next) error {
	return g.handler.serve(w, r, next)
}

// Earlier has the decisions of the phase Early about one request, for the middleware behind. The zero
// Earlier has none. It is used by one goroutine at a time.
type Earlier struct {
	innermost *lent         // of the innermost middleware of the phase Early; nil: there is none
	passed    *[]web.Policy // limits that the request has passed in the other phase, for Options.Several; nil: none
}

// earlierKey is the context key of what an Earlier has otherwise.
type earlierKey struct{}

// lent is what a middleware of the phase Early lends to those behind it. It ends when that middleware returns:
// a handler may go on after that, such as one behind http.TimeoutHandler, and the scratch is then that of
// another request. What the request took stays taken.
type lent struct {
	request.Earlier
	handler *handler // which lends it
	outer   *lent    // of the middleware of the phase Early around that; nil: there is none

	mu      sync.Mutex // held while the scratch is used
	scratch *scratch   // nil: it has ended
}

// end ends l. It waits while somebody uses the scratch.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scratch = nil
}

// use calls f with the scratch, unless l has ended.
func (l *lent) use(f func(*scratch)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scratch != nil {
		f(l.scratch)
	}
}

// undo gives back what the request took.
func (l *lent) undo(r *http.Request) {
	l.use(func(s *scratch) { l.handler.undo(r, &s.Verdict) })
}

// policies appends the limits that the request passed.
func (l *lent) policies(to []web.Policy) []web.Policy {
	l.use(func(s *scratch) { to = append(to, s.policies...) })
	return to
}

// descriptors returns a copy of the descriptors of the request.
func (l *lent) descriptors() (all []limiter.Descriptor) {
	l.use(func(s *scratch) {
		all = slices.Clone(s.Descriptors())
		for i := range all {
			all[i].Entries = slices.Clone(all[i].Entries)
			for n := range all[i].Entries {
				e := &all[i].Entries[n]
				e.Key, e.Value = strings.Clone(e.Key), strings.Clone(e.Value) // they may lie in the scratch
			}
		}
	})
	return all
}

// pass passes a request to next, with the decision in s if it is of the phase Early.
func (h *handler) pass(w http.ResponseWriter, r *http.Request, s *scratch, next Next) error {
	if h.options.Phase != Early {
		return next.ServeHTTP(w, r)
	}
	l := &lent{Earlier: request.EarlierOf(&s.Verdict), handler: h, outer: s.outer, scratch: s}
	defer l.end()
	if e := s.earlier; e != nil {
		before := e.innermost
		e.innermost = l
		defer func() { e.innermost = before }()
		return next.ServeHTTP(w, r)
	}
	return next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), earlierKey{}, l)))
}

// around returns what the innermost middleware of the phase Early around this one lends; nil if there is none.
func (h *handler) around(r *http.Request, s *scratch) *lent {
	if h.options.Earlier != nil {
		if s.earlier = h.options.Earlier(r); s.earlier != nil {
			return s.earlier.innermost
		}
	}
	outer, _ := r.Context().Value(earlierKey{}).(*lent)
	return outer
}

// shown returns the limits that the answer to a request shows which passes this middleware: its own, and those
// that it passed before.
func (h *handler) shown(s *scratch) []web.Policy {
	own, all := len(s.policies), s.policies
	for outer := s.outer; outer != nil; outer = outer.outer {
		if h.options.Several || outer == s.same {
			all = outer.policies(all)
		}
	}
	s.policies = all[:own]
	if e := s.earlier; e != nil && h.options.Several {
		before := e.passed
		if before == nil {
			before = new([]web.Policy)
		}
		all = append(all, *before...)
		if h.options.Phase != Early {
			passed := slices.Concat(*before, s.policies)
			e.passed = &passed
		}
	}
	return all
}

// findEarlier finds the earlier decisions about the request, and among them that of the same domain.
func (h *handler) findEarlier(r *http.Request, s *scratch) {
	s.policies, s.denied = s.policies[:0], false
	if s.handler = h; h.domain == "" {
		return
	}
	s.outer = h.around(r, s)
	if h.options.Phase == Early {
		return
	}
	for outer := s.outer; outer != nil; outer = outer.outer {
		if outer.handler.domain == h.domain {
			s.same, s.Earlier = outer, &outer.Earlier
			return
		}
	}
}

// denies gives back what the phase Early took, as this one denies the request, and calls
// Options.Observe. It is called before the header is sent; a second call does nothing.
func (h *handler) denies(r *http.Request, s *scratch) {
	if s.denied {
		return
	}
	s.denied = true
	h.observe(r, s, false)
	h.undoEarlier(r, s)
}

// undoEarlier gives back what the middlewares of the phase Early took, of any domain, as this one
// denies the request.
func (h *handler) undoEarlier(r *http.Request, s *scratch) {
	for outer := s.outer; outer != nil; outer = outer.outer {
		outer.undo(r)
	}
}
