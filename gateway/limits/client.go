package limits

import (
	"net/http"
	"net/netip"
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/internal/web"
)

// client finds the address of the client of a request: it reads the forwarded header from the right
// up to the first address that is no trusted proxy.
type client struct {
	trust  web.TrustConfig
	source caddyhttp.IPRangeSource // nil: trust has all proxies
	header string                  // in canonical form
	found  atomic.Pointer[finder]
}

// finder is a finder for the ranges of a source.
type finder struct {
	*web.ClientFinder
	ranges []netip.Prefix
}

// clientOf returns how the handler finds clients: by the trusted proxies of the app, or else of the
// server. It refuses a server that reads forwarded headers from the left, because its own
// {client_ip} is then what the client writes.
func (h *Handler) clientOf(ctx caddy.Context, server *caddyhttp.Server) (*client, error) {
	c := &client{header: web.ForwardedFor}
	c.trust.Trusted = h.app.Config().Proxies()
	if server != nil {
		source, err := proxiesOf(server)
		if err != nil && len(c.trust.Trusted) == 0 {
			return nil, h.fault(err.Error(), "set trusted_proxies in the block of stint")
		}
		if (source != nil || server.TrustedProxiesUnix) && server.TrustedProxiesStrict == 0 {
			return nil, h.fault("the server has trusted_proxies without trusted_proxies_strict: clients can write any address into the forwarded header",
				"add trusted_proxies_strict to the block of servers")
		}
		if len(c.trust.Trusted) == 0 {
			c.source = source
		}
		c.trust.TrustLocal = server.TrustedProxiesUnix
		if len(server.ClientIPHeaders) > 0 {
			c.header = http.CanonicalHeaderKey(server.ClientIPHeaders[0])
			if len(server.ClientIPHeaders) > 1 {
				ctx.Slogger().Warn("only the first header of client_ip_headers is read", "header", c.header)
			}
		}
	}
	c.trust.Header = c.header
	c.finder(nil)
	return c, nil
}

// proxiesOf returns the trusted proxies of a server, nil if it has none. Caddy has no accessor for
// them.
func proxiesOf(server *caddyhttp.Server) (caddyhttp.IPRangeSource, error) {
	field := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	if !field.IsValid() || field.Type() != reflect.TypeFor[caddyhttp.IPRangeSource]() {
		return nil, errHidden
	}
	return *(*caddyhttp.IPRangeSource)(unsafe.Pointer(field.UnsafeAddr())), nil
}

// find returns the address of the client, and whether a trusted proxy forwarded the request.
func (c *client) find(r *http.Request) (addr netip.Addr, forwarded bool) {
	f, peer := c.finder(r), web.PeerAddr(r.RemoteAddr)
	return f.Client(peer, r.Header[c.header]), f.Trusts(peer)
}

// finder returns the finder for the present ranges of the source. r is nil before there are requests.
func (c *client) finder(r *http.Request) *web.ClientFinder {
	last := c.found.Load()
	var ranges []netip.Prefix
	if c.source != nil && r != nil {
		ranges = c.source.GetIPRanges(r)
	}
	if last != nil && len(last.ranges) == len(ranges) && (len(ranges) == 0 || &last.ranges[0] == &ranges[0]) {
		return last.ClientFinder
	}
	trust := c.trust
	if c.source != nil {
		trust.Trusted = ranges
	}
	f := &finder{web.NewClientFinder(trust), ranges}
	c.found.Store(f)
	return f.ClientFinder
}
