package rule

import (
	"fmt"
	"net/netip"

	"stint/rule/action"
)

// Listed is one element of `exempt` or `deny` of a domain: a list of addresses or
// values, and what becomes of a request that is in it. It is immutable.
type Listed struct {
	// Name is what answers and logs call it: the name that the file gives it, else
	// domain/exempt or domain/deny with its number, such as api/deny#1.
	Name string

	// Exempt: the request passes, and nothing is counted. Else it is denied.
	Exempt bool

	// Status is that of the answer to a plain HTTP request which is denied: 403, or
	// 429 where the file says so.
	Status int

	// File and Line are where the element stands.
	File string
	Line int

	// Header is the header whose values are looked up, and Key the key of the entries whose
	// values are. The client's address is looked up where both are "".
	Header, Key string

	// Set is what values are looked up in, and Networks what the client's address is; nil
	// where another is looked up.
	Set      Set
	Networks Networks
}

// Set is the elements of a list. Package list has those that files hold.
type Set interface {
	// Len returns how many elements there are.
	Len() int
	// Elements returns them, sorted.
	Elements() []string
	// Has says whether the text is in the list.
	Has(text string) bool
}

// Networks are networks and single addresses.
type Networks interface {
	// Holds says whether an address lies in one of them.
	Holds(addr netip.Addr) bool
}

// Lists returns the elements of `exempt`, then those of `deny`, which come into
// play in this order. The slice must not be changed.
func (d *Domain) Lists() []*Listed { return d.lists }

// Elements returns what is in the list, sorted.
func (l *Listed) Elements() []string { return l.Set.Elements() }

// What returns what is looked up in the list: the client's address, a header or a key.
func (l *Listed) What() string {
	switch {
	case l.Header != "":
		return "header " + l.Header
	case l.Key != "":
		return "key " + l.Key
	}
	return "client's address"
}

// HoldsRequest says whether the client's address, or a header, is in the list. Of a
// header any value counts. It is false for a list of values of descriptors.
func (l *Listed) HoldsRequest(a Attributes) bool {
	switch {
	case l.Networks != nil:
		return l.Networks.Holds(a.RemoteAddress())
	case l.Header != "":
		return action.AnyValue(a, l.Header, l.Set.Has)
	}
	return false
}

// HoldsEntries says whether an entry of a descriptor has the key and a value of the
// list. It is false for a list of addresses and for one of a header.
func (l *Listed) HoldsEntries(entries []Entry) bool {
	if l.Key == "" {
		return false
	}
	for i := range entries {
		if entries[i].Key == l.Key && l.Set.Has(entries[i].Value) {
			return true
		}
	}
	return false
}

// summary returns what the element says in one line.
func (l *Listed) summary() string {
	word := fmt.Sprintf("deny with %d", l.Status)
	if l.Exempt {
		word = "exempt"
	}
	return fmt.Sprintf("%s %s: %s in %d", word, l.Name, l.What(), l.Set.Len())
}
