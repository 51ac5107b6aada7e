package list

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gaissmai/bart"

	"stint/internal/text"
)

// listSet is a set of addresses or texts of any size.
type listSet interface {
	// Add adds an element in the notation of a rule file. The error is a [*listFault].
	Add(text string) error

	// Len returns the number of different elements.
	Len() int

	// Elements returns the elements, sorted.
	Elements() []string

	// Has reports whether the text is in the list.
	Has(text string) bool
}

// listFault is a fault of an element.
type listFault struct {
	Line    int // line of the file, from 1; 0 for an element that is not in a file
	Problem string
	Hint    string
}

// Error returns the problem and the hint.
func (f *listFault) Error() string { return f.Problem + "; " + f.Hint }

// maxListFaults is the number of faults reported for one file.
const maxListFaults = 10

// readList adds the lines of a file to a set and returns the first faults. It ignores blanks around
// an element, empty lines and lines that begin with #.
func readList(data []byte, set listSet) []*listFault {
	var faults []*listFault
	n := 0
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for line := range bytes.Lines(data) {
		n++
		text := string(bytes.TrimSpace(line))
		if text == "" || text[0] == '#' {
			continue
		}
		fault, ok := set.Add(text).(*listFault) //nolint:errorlint // Add returns nothing else
		if !ok {
			continue
		}
		if len(faults) == maxListFaults {
			break
		}
		fault.Line = n
		faults = append(faults, fault)
	}
	return faults
}

// networkSet is a set of networks and addresses. The zero value is empty. A look-up in a hundred
// thousand networks takes about as long as in ten. Add must not be called concurrently with other
// methods.
type networkSet struct{ table bart.Lite }

var _ listSet = (*networkSet)(nil)

// Add adds a network such as 192.0.2.0/24, or one address.
func (n *networkSet) Add(written string) error {
	prefix, err := netip.ParsePrefix(written)
	if err != nil {
		addr, err := netip.ParseAddr(written)
		if err != nil || addr.Zone() != "" {
			return &listFault{
				Problem: fmt.Sprintf("%s is neither a network nor an address", text.Quote(written)),
				Hint:    "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7",
			}
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	prefix = unmap(prefix)
	if prefix != prefix.Masked() {
		return &listFault{
			Problem: fmt.Sprintf("%s is an address inside a network", text.Quote(written)),
			Hint:    fmt.Sprintf("write %s for the network, or %s for the one address", prefix.Masked(), prefix.Addr()),
		}
	}
	n.table.Insert(prefix)
	return nil
}

// unmap converts an IPv4 network in IPv6 notation to IPv4.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Len returns the number of networks.
func (n *networkSet) Len() int { return n.table.Size() }

// Elements returns the networks as text, sorted.
func (n *networkSet) Elements() []string {
	all := make([]string, 0, n.table.Size())
	for p := range n.table.All() {
		if text := p.String(); p.IsSingleIP() {
			all = append(all, p.Addr().String())
		} else {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// Holds reports whether an address is in one of the networks. It returns false for the invalid
// address.
func (n *networkSet) Holds(addr netip.Addr) bool {
	return addr.IsValid() && n.table.Contains(addr.Unmap().WithZone(""))
}

// Has reports whether a text is an address in one of the networks, or a network that is part of
// one of them.
func (n *networkSet) Has(text string) bool {
	if strings.IndexByte(text, '/') < 0 {
		addr, err := netip.ParseAddr(text)
		return err == nil && n.Holds(addr)
	}
	prefix, err := netip.ParsePrefix(text)
	return err == nil && n.table.LookupPrefix(unmap(prefix).Masked())
}

// textSet is a set of texts, which are compared byte by byte. Create one with make(textSet).
type textSet map[string]struct{}

var _ listSet = textSet{}

// Add adds a text. It refuses an empty text, which would match requests without a value.
func (t textSet) Add(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return &listFault{Problem: "an empty text in a list", Hint: "write a value, or remove the element"}
	}
	t[text] = struct{}{}
	return nil
}

// Len returns the number of texts.
func (t textSet) Len() int { return len(t) }

// Elements returns the texts, sorted.
func (t textSet) Elements() []string { return slices.Sorted(maps.Keys(t)) }

// Has reports whether the text is in the list.
func (t textSet) Has(text string) bool { _, ok := t[text]; return ok }
