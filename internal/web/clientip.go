package web

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	// MaxHops is how many entries of a forwarded header are read, from the right.
	MaxHops = 100

	// DefaultV6Bits is how much of an IPv6 address names a client where nothing else
	// is said: whoever has one address of a /64 has them all.
	DefaultV6Bits = 64

	// ForwardedFor is the header that most proxies add hops to.
	ForwardedFor = "X-Forwarded-For"

	// Forwarded is the header of RFC 7239.
	Forwarded = "Forwarded"
)

// TrustConfig says whom to believe.
type TrustConfig struct {
	// Trusted are the proxies whose forwarded header is believed. None: the header is
	// never read. IPv4 and IPv6 are listed apart: ::/0 holds no IPv4 address.
	Trusted []netip.Prefix

	// TrustLocal believes a peer without an address as well: one on a Unix socket.
	TrustLocal bool

	// Header is the one header that is read; "" means X-Forwarded-For. A header that
	// the proxies do not write themselves is one that clients write, so no other is
	// looked at. Forwarded has the syntax of RFC 7239; any other holds one address
	// (X-Real-IP) or a list of them.
	Header string
}

// ClientFinder finds clients. It is immutable and safe for concurrent use.
type ClientFinder struct {
	trusted []netip.Prefix
	local   bool
	header  string
	cut     func(line string) (rest, hop string, more bool)
	parse   func(hop string) (netip.Addr, bool)
}

// NewClientFinder returns a finder. The zero TrustConfig believes nobody: the client is the peer.
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

// unmap turns the prefix of IPv4 addresses written as IPv6 into the plain one.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// Header returns the name of the header that the finder reads.
func (f *ClientFinder) Header() string { return f.header }

// Client returns the address of the client behind peer, without a zone and with
// IPv4 as such. lines are the values of the forwarded header in their order; peer
// is invalid for a connection without an address.
//
// Each proxy adds the address it saw to the right, so the header is read from
// there: a hop is believed if the one that added it is trusted, and the first that
// is not trusted is the client. What is no address ends the walk at the trusted hop
// that sent it. So whatever an untrusted side writes into the header, the result
// is never an address of its choice. Invalid means that nobody can tell.
func (f *ClientFinder) Client(peer netip.Addr, lines []string) netip.Addr {
	at, _ := f.Find(peer, lines)
	return at
}

// ClientFound is how the address of a client was found.
type ClientFound uint8

const (
	// KnownClient says that it is the client's, as far as the proxies can be believed.
	KnownClient ClientFound = iota

	// MissingClient says that a trusted proxy sent the request and no forwarded header: the
	// address is the proxy's own.
	MissingClient

	// UnreadableClient says that what a trusted proxy wrote is no address, or is behind more
	// than MaxHops: the address is a proxy's.
	UnreadableClient
)

// Find returns what Client returns, and whether it is the client's.
func (f *ClientFinder) Find(peer netip.Addr, lines []string) (netip.Addr, ClientFound) {
	at := peer.WithZone("").Unmap()
	hops := 0
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; hops++ {
			if !f.trusts(at) {
				return at, KnownClient
			}
			if hops == MaxHops {
				return at, UnreadableClient
			}
			var hop string
			rest, hop, more = f.cut(rest)
			next, ok := f.parse(hop)
			if !ok {
				return at, UnreadableClient
			}
			at = next
		}
	}
	if hops == 0 && f.trusts(at) {
		return at, MissingClient
	}
	return at, KnownClient
}

// Trusts says whether peer, invalid for a connection without an address, is a trusted
// proxy.
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

// GroupAddr returns the address that stands for all of one client: an IPv6 address
// with all but its first bits cleared, any other as it is. bits 0 means
// DefaultV6Bits.
func GroupAddr(a netip.Addr, bits int) netip.Addr {
	if !a.Is6() {
		return a
	}
	if bits <= 0 || bits > 128 {
		bits = DefaultV6Bits
	}
	p, _ := a.WithZone("").Prefix(bits) // an error needs bits out of range
	return p.Addr()
}

// PeerAddr returns the address of a connection from its text, such as "192.0.2.1:1234"
// or "[2001:db8::1]:1234"; invalid for a connection without one.
func PeerAddr(remote string) netip.Addr {
	a, _ := ParseHost(remote)
	return a
}
