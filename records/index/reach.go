package index

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The largest networks whose ban denies few enough clients.
const (
	widest4 = 8
	widest6 = 19
)

var loopbacks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// translated are the networks of IPv6 addresses that stand for IPv4 addresses, which follow at a bit: NAT64
// (RFC 6052 and RFC 8215) and 6to4 (RFC 3056).
var translated = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 96},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 96},
	{netip.MustParsePrefix("2002::/16"), 16},
}

// Reach returns why a ban of a network would deny too many, and what to ban instead: programs on this
// machine, a trusted proxy, or clients of a very large network. The problem is "" if it would not.
func Reach(network netip.Prefix, trusted []netip.Prefix) (problem, instead string) {
	for _, own := range loopbacks {
		if network.Overlaps(own) {
			return "the ban would deny programs on this machine (" + own.String() + ")", "name a smaller network"
		}
	}
	for _, proxy := range trusted {
		if network.Overlaps(Unmap(proxy)) {
			return "the ban would deny the trusted proxy " + proxy.String() + ", and all clients behind it", "ban the client's address"
		}
	}
	switch addr := network.Addr(); {
	case addr.Is4() && network.Bits() < widest4:
		return fmt.Sprintf("larger than a /%d", widest4), "name smaller networks"
	case addr.Is6() && network.Bits() < widest6:
		return fmt.Sprintf("larger than a /%d", widest6), "name smaller networks"
	}
	for _, by := range translated {
		if !network.Addr().Is6() || !network.Overlaps(by.network) {
			continue
		}
		meant := embedded(network, by.at)
		if problem, instead := Reach(meant, trusted); problem != "" {
			return "it stands for " + meant.String() + ": " + problem, instead
		}
	}
	return "", ""
}

// embedded returns the IPv4 network that an IPv6 network stands for, whose addresses have the IPv4 address
// at a bit.
func embedded(network netip.Prefix, at int) netip.Prefix {
	if network.Bits() < at {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	all := network.Addr().As16()
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], binary.BigEndian.Uint32(all[at/8:]))
	return netip.PrefixFrom(netip.AddrFrom4(four), min(network.Bits()-at, 32)).Masked()
}

// CheckNetwork checks the network of a ban.
func CheckNetwork(n netip.Prefix) Fault {
	switch masked := n.Masked(); {
	case !n.IsValid():
		return Fault{"not a network", "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7/32"}
	case n != masked:
		return Fault{"an address inside a network", fmt.Sprintf("write %s for the network, or %s for the one address", masked, n.Addr())}
	}
	return Fault{}
}

// Unmap converts an IPv4 network in IPv6 notation to IPv4.
func Unmap(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

// ParseNetwork parses a network such as 192.0.2.0/24, or an address. It reports false if s is neither.
func ParseNetwork(s string) (network netip.Prefix, ok bool) {
	network, err := netip.ParsePrefix(s)
	if err != nil {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return network, false
		}
		network = netip.PrefixFrom(addr, addr.BitLen())
	}
	return Unmap(network), true
}
