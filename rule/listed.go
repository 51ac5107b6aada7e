package rule

import (
	"fmt"

	"stint/rule/action"
	"stint/rule/list"
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

	header   string         // compared with values; "" is none
	key      string         // of the entries that are compared; "" is none
	set      list.Set       // of values, or of networks for the values of key
	networks *list.Networks // set, where that is compared with the client's address
}

// Lists returns the elements of `exempt`, then those of `deny`, which come into
// play in this order. The slice must not be changed.
func (d *Domain) Lists() []*Listed { return d.lists }

// Elements returns what is in the list, sorted.
func (l *Listed) Elements() []string { return l.set.Elements() }

// What returns what is looked up in the list: the client's address, a header or a key.
func (l *Listed) What() string {
	switch {
	case l.header != "":
		return "header " + l.header
	case l.key != "":
		return "key " + l.key
	}
	return "client's address"
}

// HoldsRequest says whether the client's address, or a header, is in the list. Of a
// header any value counts. It is false for a list of values of descriptors.
func (l *Listed) HoldsRequest(a Attributes) bool {
	switch {
	case l.networks != nil:
		return l.networks.Holds(a.RemoteAddress())
	case l.header != "":
		return action.AnyValue(a, l.header, l.set.Has)
	}
	return false
}

// HoldsEntries says whether an entry of a descriptor has the key and a value of the
// list. It is false for a list of addresses and for one of a header.
func (l *Listed) HoldsEntries(entries []Entry) bool {
	if l.key == "" {
		return false
	}
	for i := range entries {
		if entries[i].Key == l.key && l.set.Has(entries[i].Value) {
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
	return fmt.Sprintf("%s %s: %s in %d", word, l.Name, l.What(), l.set.Len())
}
