package web

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	// MaxHops is the most entries of a forwarded header that are read, from the right.
	MaxHops = 100

	// DefaultV6Bits is the default length of the IPv6 prefix that identifies a client: whoever has
	// one address of a /64 has all of them.
	DefaultV6Bits = 64

	// ForwardedFor is the header that most proxies add hops to.
	ForwardedFor = "X-Forwarded-For"

	// Forwarded is the header of RFC 7239.
	Forwarded = "Forwarded"
)

// TrustConfig defines the trusted proxies.
type TrustConfig struct {
	// Trusted are the proxies whose forwarded header is used. None: the header is never read. IPv4
	// and IPv6 need separate prefixes: ::/0 contains no IPv4 address.
	Trusted []netip.Prefix

	// TrustLocal also trusts a peer without an address, which is on a Unix socket.
	TrustLocal bool

	// Header is the only header that is read; "" means X-Forwarded-For. Clients can write any
	// header that the proxies do not write themselves, so no other header is read. Forwarded has
	// the syntax of RFC 7239; any other header has one address (X-Real-IP) or a list of addresses.
	Header string
}

// ClientFinder finds the address of the client of a request. It is immutable and safe for
// concurrent use.
type ClientFinder struct {
	trusted []netip.Prefix
	local   bool
	header  string
	cut     func(line string) (rest, hop string, more bool)
	parse   func(hop string) (netip.Addr, bool)
}

// NewClientFinder returns a finder. The zero TrustConfig trusts nobody: the client is the peer.
func NewClientFinder(c TrustConfig) *ClientFinder {
	f := &ClientFinder{local: c.TrustLocal, header: c.Header, cut: cutList, parse: ParseHost}
	if f.header == "" {
		f.header = ForwardedFor
	}
	if strings.EqualFold(f.header, Forwarded) {
		f.cut, f.parse = cutQuoted, parseForwarded
	}
	for _, p := range c.Trusted {
		f.trusted = append(f.trusted, unmap(p))
	}
	return f
}

// unmap converts a prefix of IPv4 addresses in IPv6 form to IPv4.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// Header returns the name of the header that the finder reads.
func (f *ClientFinder) Header() string { return f.header }

// Client returns the address of the client behind peer, without a zone; IPv4 in IPv6 becomes IPv4.
// lines are the values of the forwarded header in their order. peer is invalid for a connection
// without an address.
//
// Each proxy appends the address of its peer, so Client reads the header from the right. It uses an
// entry if the hop that appended it is trusted; the first untrusted hop is the client. If an entry
// is no address, the result is the trusted hop that sent it. So an untrusted hop can never choose
// the result by what it writes into the header. The result is invalid if the client is unknown.
func (f *ClientFinder) Client(peer netip.Addr, lines []string) netip.Addr {
	at, _ := f.Find(peer, lines)
	return at
}

// ClientFound is the result of the search for a client's address.
type ClientFound uint8

const (
	// KnownClient means that the address is the client's, if the trusted proxies are right.
	KnownClient ClientFound = iota

	// MissingClient means that a trusted proxy sent no forwarded header. The address is the proxy's
	// own.
	MissingClient

	// InvalidClient means that a trusted proxy wrote an entry that is no address, or more than
	// MaxHops entries. The address is a proxy's.
	InvalidClient
)

// Find is like Client, and also returns whether the address is the client's.
func (f *ClientFinder) Find(peer netip.Addr, lines []string) (netip.Addr, ClientFound) {
	at := peer.WithZone("").Unmap()
	hops := 0
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; hops++ {
			if !f.trusts(at) {
				return at, KnownClient
			}
			if hops == MaxHops {
				return at, InvalidClient
			}
			var hop string
			rest, hop, more = f.cut(rest)
			next, ok := f.parse(hop)
			if !ok {
				return at, InvalidClient
			}
			at = next
		}
	}
	if hops == 0 && f.trusts(at) {
		return at, MissingClient
	}
	return at, KnownClient
}

// Trusts reports whether peer is a trusted proxy. It is invalid for a connection without an
// address.
func (f *ClientFinder) Trusts(peer netip.Addr) bool { return f.trusts(peer.WithZone("").Unmap()) }

func (f *ClientFinder) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return f.local
	}
	for _, p := range f.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// GroupAddr returns the address that stands for all addresses of one client: an IPv6 address with
// all but its first bits cleared, and any other address unchanged. bits 0 means DefaultV6Bits.
func GroupAddr(a netip.Addr, bits int) netip.Addr {
	if !a.Is6() {
		return a
	}
	if bits <= 0 || bits > 128 {
		bits = DefaultV6Bits
	}
	p, _ := a.WithZone("").Prefix(bits) // Prefix fails only if bits is out of range
	return p.Addr()
}

// PeerAddr parses the address of a connection, for example "192.0.2.1:1234" or
// "[2001:db8::1]:1234". The result is invalid for a connection without an address.
func PeerAddr(remote string) netip.Addr {
	a, _ := ParseHost(remote)
	return a
}
