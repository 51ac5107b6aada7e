package records

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Ban denies all requests of a subject or of a network. Exactly one of both is set.
type Ban struct {
	Subject string       `json:"subject,omitempty"` // such as user=42
	Network netip.Prefix `json:"network,omitzero"`  // such as 192.0.2.0/24; one address is a /32 or a /128
	Until   time.Time    `json:"until,omitzero"`    // zero: without end
	Why     string       `json:"why,omitempty"`
}

// ID returns the ban's kind and name: the subject or the network.
func (b Ban) ID() ID {
	if b.Subject != "" {
		return ID{Bans, b.Subject}
	}
	return ID{Bans, unmap(b.Network).String()}
}

func (b Ban) end() time.Time { return b.Until }

// InForce reports whether the ban denies requests at a time.
func (b *Ban) InForce(now time.Time) bool { return inForce(b.Until, now) }

// Bans of larger networks need force.
const (
	widest4 = 8
	widest6 = 19
)

var loopbacks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// ParseNetwork parses a network such as 192.0.2.0/24, or an address.
func ParseNetwork(s string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(s)
	if err != nil {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return network, &Error{
				Where: "network", Problem: shorten(s) + " is neither a network nor an address",
				Hint: "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7",
			}
		}
		network = netip.PrefixFrom(addr, addr.BitLen())
	}
	return unmap(network), nil
}

// unmap converts an IPv4 network in IPv6 notation to IPv4.
func unmap(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

func (b Ban) check(c *checks) (Record, *Error) {
	id := b.ID()
	switch {
	case b.Subject == "" && b.Network == netip.Prefix{}:
		return nil, id.fault("subject", "missing", "name a subject such as user=42, or a network")
	case b.Subject != "" && b.Network != netip.Prefix{}:
		return nil, id.fault("network", "there is also a subject", "make two bans")
	case b.Subject != "":
		if err := id.checkSubject(b.Subject); err != nil {
			return nil, err
		}
		// An entry can be an address, as in remote_address=127.0.0.1.
		_, value, _ := strings.Cut(b.Subject, "=")
		if network, err := ParseNetwork(value); err == nil && !c.force {
			if err := id.checkReach("subject", network.Masked(), c.trusted); err != nil {
				return nil, err
			}
		}
	default:
		b.Network = unmap(b.Network)
		if err := b.checkNetwork(c); err != nil {
			return nil, err
		}
	}
	err := firstFault(id.checkText("why", b.Why), id.checkUntil("until", &b.Until, c.now))
	return b, err
}

func (b *Ban) checkNetwork(c *checks) *Error {
	id := b.ID()
	switch masked := b.Network.Masked(); {
	case !b.Network.IsValid():
		return id.fault("network", "not a network", "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7/32")
	case b.Network != masked:
		return id.fault("network", "an address inside a network", fmt.Sprintf("write %s for the network, or %s for the one address", masked, b.Network.Addr()))
	case c.force:
		return nil
	}
	return id.checkReach("network", b.Network, c.trusted)
}

// checkReach refuses networks whose ban would shut out many clients, or this machine.
func (id ID) checkReach(field string, network netip.Prefix, trusted []netip.Prefix) *Error {
	for _, own := range loopbacks {
		if network.Overlaps(own) {
			return id.fault(field, "the ban would deny programs on this machine ("+own.String()+")", "name a smaller network, or use force")
		}
	}
	for _, proxy := range trusted {
		if network.Overlaps(unmap(proxy)) {
			return id.fault(field, "the ban would deny the trusted proxy "+proxy.String()+", and all clients behind it", "ban the client's address, or use force")
		}
	}
	switch addr := network.Addr(); {
	case addr.Is4() && network.Bits() < widest4:
		return id.fault(field, fmt.Sprintf("larger than a /%d", widest4), "name smaller networks, or use force")
	case addr.Is6() && network.Bits() < widest6:
		return id.fault(field, fmt.Sprintf("larger than a /%d", widest6), "name smaller networks, or use force")
	}
	return nil
}
