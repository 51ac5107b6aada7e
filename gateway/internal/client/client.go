// Package client finds the address of the client of a request behind trusted proxies, in Stint's way:
// from the right, and never by what an untrusted hop wrote.
package client

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/service"
	"stint/internal/web"
)

// Finder finds the address of the client of a request: it reads the forwarded header from the right
// up to the first address that is no trusted proxy.
type Finder struct {
	trust  web.TrustConfig
	source caddyhttp.IPRangeSource // nil: trust has all proxies
	header string                  // in canonical form
	server *caddyhttp.Server
	found  atomic.Pointer[finder]
}

// Found is what was found for a request, for further look-ups about it. The zero Found is empty.
type Found struct {
	server    *caddyhttp.Server // of the Finder: all of a server with the same app trust the same
	peer      string            // RemoteAddr of the request
	fields    int               // how many forwarded headers it has
	field     string            // the first of them; handlers may change headers in place
	addr      netip.Addr
	forwarded bool
}

// finder is a finder for the ranges of a source.
type finder struct {
	*web.ClientFinder
	ranges []netip.Prefix
}

// Options are what a Finder trusts.
type Options struct {
	// Proxies are the trusted proxies of the app stint. If there are none, those of the server are
	// trusted.
	Proxies []netip.Prefix

	// Server is the server of the requests; nil if it is unknown.
	Server *caddyhttp.Server

	// Place is the place of the directive in the configuration file, for errors.
	Place string

	// Log gets a warning about headers that are not read.
	Log *slog.Logger
}

// errHidden is the error for a version of Caddy that hides the trusted proxies of a server.
var errHidden = errors.New("this version of Caddy hides the trusted proxies of the server")

// New returns a Finder. It refuses a server that reads forwarded headers from the left, because its
// own {client_ip} is then what the client writes.
func New(o Options) (*Finder, error) {
	f := &Finder{header: web.ForwardedFor, server: o.Server}
	f.trust.Trusted = o.Proxies
	if server := o.Server; server != nil {
		source, err := proxiesOf(server)
		if err != nil && len(o.Proxies) == 0 {
			return nil, service.Fault(o.Place, err.Error(), "set trusted_proxies in the block of stint")
		}
		if (source != nil || server.TrustedProxiesUnix) && server.TrustedProxiesStrict == 0 {
			return nil, service.Fault(o.Place, "the server has trusted_proxies without trusted_proxies_strict: clients can write any address into the forwarded header",
				"add trusted_proxies_strict to the block of servers")
		}
		if len(o.Proxies) == 0 {
			f.source = source
		}
		f.trust.TrustLocal = server.TrustedProxiesUnix
		if len(server.ClientIPHeaders) > 0 {
			f.header = http.CanonicalHeaderKey(server.ClientIPHeaders[0])
			if len(server.ClientIPHeaders) > 1 {
				o.Log.Warn("only the first header of client_ip_headers is read", "header", f.header)
			}
		}
	}
	f.trust.Header = f.header
	f.finder(nil)
	return f, nil
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

// Find returns the address of the client, and whether a trusted proxy forwarded the request.
func (f *Finder) Find(r *http.Request) (addr netip.Addr, forwarded bool) {
	found, peer := f.finder(r), web.PeerAddr(r.RemoteAddr)
	return found.Client(peer, r.Header[f.header]), found.Trusts(peer)
}

// FindOnce is Find that uses what an earlier look-up about the same request found, and stores what it finds.
func (f *Finder) FindOnce(r *http.Request, known *Found) (addr netip.Addr, forwarded bool) {
	fields, field := r.Header[f.header], ""
	if len(fields) > 1 {
		return f.Find(r)
	}
	if len(fields) == 1 {
		field = fields[0]
	}
	if known.addr.IsValid() && known.server == f.server && known.peer == r.RemoteAddr && known.fields == len(fields) && known.field == field {
		return known.addr, known.forwarded
	}
	addr, forwarded = f.Find(r)
	*known = Found{f.server, r.RemoteAddr, len(fields), field, addr, forwarded}
	return addr, forwarded
}

// finder returns the finder for the present ranges of the source. r is nil before there are requests.
func (f *Finder) finder(r *http.Request) *web.ClientFinder {
	last := f.found.Load()
	var ranges []netip.Prefix
	if f.source != nil && r != nil {
		ranges = f.source.GetIPRanges(r)
	}
	if last != nil && len(last.ranges) == len(ranges) && (len(ranges) == 0 || &last.ranges[0] == &ranges[0]) {
		return last.ClientFinder
	}
	trust := f.trust
	if f.source != nil {
		trust.Trusted = ranges
	}
	next := &finder{web.NewClientFinder(trust), ranges}
	f.found.Store(next)
	return next.ClientFinder
}
