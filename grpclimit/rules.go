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

// New limits a server by the rules of a domain in the table of l. The domain's
// http.rate_limits turn a call into descriptors, each at its cost. A domain that is
// unknown or has none limits nothing, until a table is put in force in which it does.
func New(l *limiter.Limiter, domain string, options Options) *Server {
	f := finder(&options)
	a := &byRules{request.ByRules{Limiter: l, Domain: domain}, f, strings.ToLower(f.Header())}
	return newServer(a, l, options)
}

// byRules asks the limits of a domain.
type byRules struct {
	request.ByRules
	finder    *web.ClientFinder
	forwarded string // the key of metadata that finder reads
}

func (b *byRules) ask(c *call, s *scratch) (request.Outcome, error) {
	return b.Decide(c.ctx, &attributes{call: c, rules: b}, c.answers, &s.Scratch)
}

// call is one call, or one message of its stream.
type call struct {
	ctx     context.Context
	method  string     // the full name
	peer    *peer.Peer // nil: unknown
	message any        // nil: not received yet
	answers bool       // how it ends will be seen
}

func newCall(ctx context.Context, method string) *call {
	c := &call{ctx: ctx, method: method}
	c.peer, _ = peer.FromContext(ctx)
	return c
}

// from returns the address of the peer; invalid: it has none.
func (c *call) from() netip.Addr {
	if c.peer == nil || c.peer.Addr == nil {
		return netip.Addr{}
	}
	return web.PeerAddr(c.peer.Addr.String())
}

// client returns the address of who called; invalid: unknown.
func (c *call) client(f *web.ClientFinder, forwarded string) netip.Addr {
	return f.Client(c.from(), metadata.ValueFromIncomingContext(c.ctx, forwarded))
}

// attributes is a call as the actions of a rule file read it: the request of
// HTTP/2 that it is.
type attributes struct {
	*call
	rules *byRules
}

var (
	_ rule.Attributes = (*attributes)(nil)
	_ rule.Connection = (*attributes)(nil)
	_ rule.Sizer      = (*attributes)(nil)
)

// Method returns POST, which every call of gRPC is.
func (a *attributes) Method() string { return "POST" }

// Path returns the full name of the method, such as /package.Service/Method.
func (a *attributes) Path() string { return a.method }

// Query returns nothing: calls have none.
func (a *attributes) Query(string) (string, bool) { return "", false }

// Header returns the first value of a key of metadata. Names with a colon are those
// of HTTP/2 and Envoy.
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

// Values returns all values of a key of metadata.
func (a *attributes) Values(name string) []string {
	if name = strings.ToLower(name); name == "host" {
		name = ":authority"
	}
	return metadata.ValueFromIncomingContext(a.ctx, name)
}

// BodySize returns the size of the message, if there is one yet and it is one of
// protocol buffers.
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

// PeerCertificate returns the client's certificate if the server has verified it: a
// server that only asks for one takes any.
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

// TrustedPeer says whether a trusted proxy brought the call.
func (a *attributes) TrustedPeer() bool { return a.rules.finder.Trusts(a.from()) }
