package httplimit

import (
	"net/http"
	"net/netip"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
)

// Limit returns middleware that applies one limit to each client, with its state in store. A client
// is identified by its address or by Options.Key.
func Limit(store stint.Store, limit *stint.Limit, options Options) func(http.Handler) http.Handler {
	l := limiter.New(store, nil, limiter.Options{Tracer: options.Tracer})
	f := finder(&options)
	b := &single{
		Single: request.NewSingle(l, limit, request.SingleOptions{
			Name: options.Name, Keyed: options.Key != nil, OnMissing: options.OnMissing,
			IPv6Bits: options.IPv6Bits, OnStoreFailure: options.OnStoreFailure,
		}),
		given: options.Key, finder: f, forwarded: http.CanonicalHeaderKey(f.Header()),
	}
	return middleware(newHandler(b, l, "", options))
}

// single decides by one limit without rules.
type single struct {
	*request.Single
	given     func(*http.Request) (string, bool)
	finder    *web.ClientFinder
	forwarded string // the header that finder reads, in canonical form
}

func (b *single) ask(r *http.Request, s *scratch) (request.Outcome, error) {
	s.caller = caller{r, b}
	return b.Decide(s.handler.contextOf(r), "", &s.caller, &s.Scratch)
}

// caller is the sender of a request.
type caller struct {
	request *http.Request
	bare    *single
}

// Key implements request.Caller.
func (c *caller) Key() (string, bool) { return c.bare.given(c.request) }

// Client implements request.Caller.
func (c *caller) Client() netip.Addr {
	return c.bare.finder.Client(web.PeerAddr(c.request.RemoteAddr), c.request.Header[c.bare.forwarded])
}
