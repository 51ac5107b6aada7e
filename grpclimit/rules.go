package grpclimit

import (
	"context"
	"crypto/x509"
	"net/netip"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/rule"
)

// New limits a server by the rules of a domain in the table of l. The domain's http.rate_limits
// turn a call into descriptors, each with its cost. A domain that is unknown or has no http section
// limits nothing, until a table with such a domain is in force.
func New(l *limiter.Limiter, domain string, options Options) *Server {
	f := finder(&options)
	a := &byRules{request.ByRules{Limiter: l, Domain: domain}, options.APIKeys, f, strings.ToLower(f.Header())}
	return newServer(a, l, options)
}

// byRules decides by the rules of a domain.
type byRules struct {
	request.ByRules
	identify  request.IdentifyFunc
	finder    *web.ClientFinder
	forwarded string // the metadata key that finder reads
}

func (b *byRules) ask(c *call, s *scratch) (request.Outcome, error) {
	return b.Decide(c.ctx, &attributes{call: c, rules: b, Identifier: request.NewIdentifier(b.identify)}, c.answers, &s.Scratch)
}

// call is one call, or one message of a stream.
type call struct {
	ctx     context.Context
	method  string     // full method name
	peer    *peer.Peer // nil if unknown
	message any        // nil if not received yet
	answers bool       // the final status will be known
}

func newCall(ctx context.Context, method string) *call {
	c := &call{ctx: ctx, method: method}
	c.peer, _ = peer.FromContext(ctx)
	return c
}

// from returns the address of the peer, or the invalid address if it has none.
func (c *call) from() netip.Addr {
	if c.peer == nil || c.peer.Addr == nil {
		return netip.Addr{}
	}
	return web.PeerAddr(c.peer.Addr.String())
}

// client returns the address of the client, or the invalid address if it is unknown.
func (c *call) client(f *web.ClientFinder, forwarded string) netip.Addr {
	return f.Client(c.from(), metadata.ValueFromIncomingContext(c.ctx, forwarded))
}

// attributes is a call for the actions of a rule file, as an HTTP/2 request.
type attributes struct {
	*call
	request.Identifier
	rules *byRules
}

var (
	_ rule.Attributes = (*attributes)(nil)
	_ rule.Connection = (*attributes)(nil)
	_ rule.Sizer      = (*attributes)(nil)
	_ rule.KeyRecords = (*attributes)(nil)
)

// Method returns POST, the method of every gRPC call.
func (a *attributes) Method() string { return "POST" }

// Path returns the full name of the method, such as /package.Service/Method.
func (a *attributes) Path() string { return a.method }

// Query returns nothing, because calls have no query.
func (a *attributes) Query(string) (string, bool) { return "", false }

// Header returns the first value of a metadata key. Names with a colon are pseudo-headers of HTTP/2
// and Envoy.
func (a *attributes) Header(name string) (string, bool) {
	switch name = strings.ToLower(name); name {
	case ":method":
		return a.Method(), true
	case ":path":
		return a.method, true
	}
	values := a.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// Values returns all values of a metadata key.
func (a *attributes) Values(name string) []string {
	if name = strings.ToLower(name); name == "host" {
		name = ":authority"
	}
	return metadata.ValueFromIncomingContext(a.ctx, name)
}

// BodySize returns the size of the message if it is known and a protocol buffer.
func (a *attributes) BodySize() (bytes int64, known bool) {
	message, ok := a.message.(proto.Message)
	if !ok {
		return 0, false
	}
	return int64(proto.Size(message)), true
}

// Host returns the authority that the client asked for.
func (a *attributes) Host() string {
	host, _ := a.Header(":authority")
	return host
}

// RemoteAddress returns the address of the client.
func (a *attributes) RemoteAddress() netip.Addr { return a.client(a.rules.finder, a.rules.forwarded) }

// PeerCertificate returns the client's certificate if the server verified it. A server that only
// requests certificates accepts any.
func (a *attributes) PeerCertificate() *x509.Certificate {
	if a.peer == nil {
		return nil
	}
	info, ok := a.peer.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

// TrustedPeer reports whether a trusted proxy forwarded the call.
func (a *attributes) TrustedPeer() bool { return a.rules.finder.Trusts(a.from()) }
