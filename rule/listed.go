package rule

import (
	"fmt"
	"net/netip"

	"stint/rule/action"
)

// Listed is one element of `exempt` or `deny` of a domain: a list of addresses or values, and
// what happens to a request that is in it. It is immutable.
type Listed struct {
	// Name is the name in answers and logs: the one in the file, else domain/exempt or
	// domain/deny with its number, such as api/deny#1.
	Name string

	// Exempt: the request passes and nothing is counted. Otherwise it is denied.
	Exempt bool

	// Status is the status of the response to a denied HTTP request: 403, or 429 if the file sets
	// it.
	Status int

	// File and Line are the place of the element.
	File string
	Line int

	// Header is the header whose values are looked up; Key is the descriptor key whose values are
	// looked up. If both are "", the client's address is.
	Header, Key string

	// Set has the values. Networks is set if the client's address is looked up, else nil.
	Set      Set
	Networks Networks
}

// Set is the elements of a list. Package list implements it.
type Set interface {
	// Len returns how many elements there are.
	Len() int
	// Elements returns the elements, sorted.
	Elements() []string
	// Has reports whether the text is in the list.
	Has(text string) bool
}

// Networks is a set of networks and single addresses.
type Networks interface {
	// Holds reports whether an address is in one of the networks.
	Holds(addr netip.Addr) bool
}

// Lists returns the elements of `exempt`, then those of `deny`. They are checked in this order.
// Callers must not change the slice.
func (d *Domain) Lists() []*Listed { return d.lists }

// Elements returns the elements of the list, sorted.
func (l *Listed) Elements() []string { return l.Set.Elements() }

// What returns what the list is compared with: the client's address, a header or a key.
func (l *Listed) What() string {
	switch {
	case l.Header != "":
		return "header " + l.Header
	case l.Key != "":
		return "key " + l.Key
	}
	return "client's address"
}

// HoldsRequest reports whether the client's address, or any value of the header, is in the list.
// It is false for a list of descriptor values.
func (l *Listed) HoldsRequest(a Attributes) bool {
	switch {
	case l.Networks != nil:
		return l.Networks.Holds(a.RemoteAddress())
	case l.Header != "":
		return action.AnyValue(a, l.Header, l.Set.Has)
	}
	return false
}

// HoldsEntries reports whether an entry with the list's key has a value in the list. It is false
// for a list of addresses or header values.
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

// summary returns the element in one line.
func (l *Listed) summary() string {
	word := fmt.Sprintf("deny with %d", l.Status)
	if l.Exempt {
		word = "exempt"
	}
	return fmt.Sprintf("%s %s: %s in %d", word, l.Name, l.What(), l.Set.Len())
}
