package grpclimit

import (
	"net/netip"
	"strings"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
)

// Limit applies one limit to each client of a server, with its state in store. A client is
// identified by its address or by Options.Key.
func Limit(store stint.Store, limit *stint.Limit, options Options) *Server {
	l := limiter.New(store, nil, limiter.Options{})
	f := finder(&options)
	b := &single{
		Single: request.NewSingle(l, limit, request.SingleOptions{
			Name: options.Name, Keyed: options.Key != nil, OnMissing: options.OnMissing,
			IPv6Bits: options.IPv6Bits, OnStoreFailure: options.OnStoreFailure,
		}),
		given: options.Key, perMethod: options.PerMethod, finder: f, forwarded: strings.ToLower(f.Header()),
	}
	return newServer(b, l, options)
}

// single decides by one limit without rules.
type single struct {
	*request.Single
	given     Key
	perMethod bool
	finder    *web.ClientFinder
	forwarded string // the metadata key that finder reads
}

func (b *single) ask(c *call, s *scratch) (request.Outcome, error) {
	part := ""
	if b.perMethod {
		part = c.method
	}
	return b.Decide(c.ctx, part, caller{c, b}, &s.Scratch)
}

// caller is the sender of a call.
type caller struct {
	*call
	bare *single
}

// Key implements request.Caller.
func (c caller) Key() (string, bool) { return c.bare.given(c.ctx, c.method) }

// Client implements request.Caller.
func (c caller) Client() netip.Addr { return c.client(c.bare.finder, c.bare.forwarded) }
