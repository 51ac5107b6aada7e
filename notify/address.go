package notify

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// AddressError is the refusal to connect to an address.
type AddressError struct {
	Addr netip.Addr
	Kind string // what the address is, such as "private"
}

// Error returns the text of the refusal.
func (e *AddressError) Error() string {
	return fmt.Sprintf("not connected: %s is a %s address; if that is intended, let allow_private of the receiver name it", e.Addr, e.Kind)
}

// special are networks that are not on the internet, or lead to this machine, its neighbours or the metadata of
// its cloud. The first that contains an address is its kind. Sources: the registries of special addresses of IANA.
var special = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "local"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"}, // Alibaba Cloud
	{netip.MustParsePrefix("100.64.0.0/10"), "private"},       // carrier-grade NAT
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"}, // Azure; the address looks public
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"}, // with 192.0.0.192, the metadata of Oracle Cloud
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved"}, // documentation
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "reserved"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "metadata"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // with Teredo, whose addresses lead to others
	{netip.MustParsePrefix("2001:db8::/32"), "reserved"},
	{netip.MustParsePrefix("3fff::/20"), "reserved"},
}

// global has all public addresses of IPv6.
var global = netip.MustParsePrefix("2000::/3")

// Addresses of IPv6 that lead to an address of IPv4.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// kindOf returns what keeps a request away from an address; "" if it is public. An address that leads to
// another one is public only if both are.
func kindOf(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	for _, inner := range embedded(addr) {
		if kind := kindOf(inner); kind != "" {
			return kind
		}
	}
	for _, s := range special {
		if s.network.Contains(addr) {
			return s.kind
		}
	}
	if !addr.IsValid() || addr.Is6() && !global.Contains(addr) && !nat64.Contains(addr) {
		return "reserved"
	}
	return ""
}

// embedded returns the addresses of IPv4 to which one of IPv6 leads: by NAT64, 6to4 or ISATAP. ISATAP stands
// in the second half of an address, in any network: a 6to4 address may lead to another one by it.
func embedded(addr netip.Addr) (inner []netip.Addr) {
	if !addr.Is6() {
		return nil
	}
	bytes := addr.As16()
	at := func(i int) { inner = append(inner, netip.AddrFrom4([4]byte(bytes[i:i+4]))) }
	isatap := binary.BigEndian.Uint32(bytes[8:])
	if nat64.Contains(addr) || isatap == 0x00005efe || isatap == 0x02005efe {
		at(12)
	}
	if sixToFour.Contains(addr) {
		at(2)
	}
	return inner
}

// checkAddress returns an [*AddressError] if no request may go to an address.
func checkAddress(addr netip.Addr, allow []netip.Prefix) error {
	kind := kindOf(addr)
	plain := addr.Unmap().WithZone("")
	if kind == "" || slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return nil
	}
	return &AddressError{addr, kind}
}
