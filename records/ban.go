package records

import (
	"net/netip"
	"strings"
	"time"

	"stint/internal/text"
	"stint/records/index"
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
	return ID{Bans, index.Unmap(b.Network).String()}
}

// field returns the name of the field that says whom the ban is about.
func (b *Ban) field() string {
	switch {
	case b.Subject != "":
		return "subject"
	case b.Network.IsSingleIP():
		return "address"
	}
	return "network"
}

func (b Ban) end() time.Time { return b.Until }

// InForce reports whether the ban denies requests at a time.
func (b *Ban) InForce(now time.Time) bool { return inForce(b.Until, now) }

// ParseNetwork parses a network such as 192.0.2.0/24, or an address.
func ParseNetwork(s string) (netip.Prefix, error) {
	network, ok := index.ParseNetwork(s)
	if !ok {
		return network, &Error{
			Where: "network", Problem: text.Shorten(s) + " is neither a network nor an address",
			Hint: "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7",
		}
	}
	return network, nil
}

func (b Ban) check(c *checks) (Record, *Error) {
	id := b.ID()
	switch {
	case b.Subject == "" && b.Network == netip.Prefix{}:
		return nil, &Error{Where: "ban: subject", Problem: "missing", Hint: "name a subject such as user=42, an address or a network"}
	case b.Subject != "" && b.Network != netip.Prefix{}:
		return nil, id.fault((&Ban{Network: b.Network}).field(), "there is also a subject", "make two bans")
	case b.Subject != "":
		if err := id.checkSubject(b.Subject); err != nil {
			return nil, err
		}
		// An entry can be an address, as in remote_address=127.0.0.1.
		_, value, _ := strings.Cut(b.Subject, "=")
		if network, err := ParseNetwork(value); err == nil && !c.force {
			if err := b.checkReach(network.Masked(), c.trusted); err != nil {
				return nil, err
			}
		}
	default:
		b.Network = index.Unmap(b.Network)
		if err := b.checkNetwork(c); err != nil {
			return nil, err
		}
	}
	err := firstFault(id.checkText("why", b.Why), id.checkUntil("until", &b.Until, c.now))
	return b, err
}

func (b *Ban) checkNetwork(c *checks) *Error {
	if fault := index.CheckNetwork(b.Network); fault.Problem != "" || c.force {
		return b.ID().fieldFault("network", fault)
	}
	return b.checkReach(b.Network, c.trusted)
}

// checkReach refuses networks whose ban would shut out many clients, or this machine.
func (b *Ban) checkReach(network netip.Prefix, trusted []netip.Prefix) *Error {
	if problem, instead := index.Reach(network, trusted); problem != "" {
		return b.ID().fault(b.field(), problem, instead+", or use force")
	}
	return nil
}
