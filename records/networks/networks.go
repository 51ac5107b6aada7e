// Package networks finds whether an address is in one of many banned networks, and until when.
package networks

import (
	"iter"
	"math"
	"net/netip"

	"github.com/gaissmai/bart"
)

// NoEnd is the end of a ban without an end.
const NoEnd = math.MaxInt64

// Table has the ends of the bans of networks, in seconds since 1970. It is immutable once it is shared.
type Table struct{ t *bart.Table[ends] }

// ends are ends of bans. One look-up of the smallest network with an address finds until when the
// address is banned.
type ends struct {
	own  int64 // of the network's own ban
	last int64 // of this ban and the bans of all larger networks around it, whichever is last
}

// New returns a table of networks and the ends of their bans.
func New(bans iter.Seq2[netip.Prefix, int64]) Table {
	t := new(bart.Table[ends])
	for network, end := range bans {
		t.Insert(network, ends{end, end})
	}
	for network, last := range unsettled(t, t.All()) {
		t.Modify(network, func(e ends, _ bool) (ends, bool) { return ends{e.own, last}, false })
	}
	return Table{t}
}

// With returns a table in which the ban of a network has an end.
func (t Table) With(network netip.Prefix, end int64) Table {
	return settle(t.t.InsertPersist(network, ends{own: end}), network)
}

// Without returns a table without the ban of a network.
func (t Table) Without(network netip.Prefix) Table {
	return settle(t.t.DeletePersist(network), network)
}

// End returns until when an address is banned. It reports false if it is in none of the networks.
func (t Table) End(addr netip.Addr) (end int64, ok bool) {
	found, ok := t.t.Lookup(addr)
	return found.last, ok
}

// settle returns a table after the ban of a network has changed. It sets the last end of this network
// and of all networks in it.
func settle(t *bart.Table[ends], changed netip.Prefix) Table {
	next := t
	for network, last := range unsettled(t, t.Subnets(changed)) {
		found, _ := t.Get(network)
		next = next.InsertPersist(network, ends{found.own, last})
	}
	return Table{next}
}

// unsettled returns those of some networks whose last end is wrong, each with the right one.
func unsettled(t *bart.Table[ends], networks iter.Seq2[netip.Prefix, ends]) map[netip.Prefix]int64 {
	wrong := map[netip.Prefix]int64{}
	for network, found := range networks {
		last := found.own
		for _, around := range t.Supernets(network) {
			last = max(last, around.own)
		}
		if last != found.last {
			wrong[network] = last
		}
	}
	return wrong
}
