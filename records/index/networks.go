package index

import (
	"iter"
	"math"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// NoEnd is the end of a ban without an end.
const NoEnd = math.MaxInt64

// Table has the ends of the bans of networks, in seconds since 1970. It is immutable.
type Table struct {
	addrs  *addresses        // networks of one address
	larger *bart.Table[ends] // all others
}

// ends are ends of bans. One look-up of the smallest network with an address finds until when the
// address is banned.
type ends struct {
	own  int64 // of the network's own ban
	last int64 // of this ban and the bans of all larger networks around it, whichever is last
}

// NewTable returns a table of networks and the ends of their bans, each after 1970.
func NewTable(bans iter.Seq2[netip.Prefix, int64]) Table {
	e := Table{new(addresses), new(bart.Table[ends])}.Edit()
	for network, end := range bans {
		if network.IsSingleIP() {
			e.putAddr(network.Addr(), end)
		} else {
			e.t.larger.Insert(network, ends{end, end})
		}
	}
	for network, last := range unsettled(e.t.larger, e.t.larger.All()) {
		e.t.larger.Modify(network, func(found ends, _ bool) (ends, bool) { return ends{found.own, last}, false })
	}
	return e.t
}

// End returns until when an address is banned: the last end of all networks that contain it. It reports
// false if there is none.
func (t Table) End(addr netip.Addr) (end int64, ok bool) {
	own := t.addrs.end(addr)
	found, ok := t.larger.Lookup(addr) // while the processor waits for memory
	return max(own, found.last), ok || own != 0
}

// EndOfNetwork returns until when all addresses of a network are banned: the last end of all networks
// that contain it. It reports false if there is none.
func (t Table) EndOfNetwork(network netip.Prefix) (end int64, ok bool) {
	if network.IsSingleIP() {
		return t.End(network.Addr())
	}
	found, ok := t.larger.LookupPrefix(network)
	return found.last, ok
}

// InForce converts the end of a ban that was found, if it is in force at a time; the zero time if it has none.
func InForce(end int64, found bool, now time.Time) (until time.Time, banned bool) {
	switch {
	case !found, now.Unix() >= end:
		return until, false
	case end == NoEnd:
		return until, true
	default:
		return time.Unix(end, 0).UTC(), true
	}
}

// Editor makes a table that differs from another one in some networks.
type Editor struct {
	t     Table
	owned map[*shard]bool // shards of addresses that belong to this table alone
}

// Edit returns an Editor that begins with t. The table t stays as it is.
func (t Table) Edit() *Editor {
	addrs := *t.addrs
	return &Editor{Table{&addrs, t.larger}, map[*shard]bool{}}
}

// Table returns the table. Do not use the Editor after that.
func (e *Editor) Table() Table { return e.t }

// Put sets the end of the ban of a network, which is after 1970.
func (e *Editor) Put(network netip.Prefix, end int64) {
	if network.IsSingleIP() {
		e.putAddr(network.Addr(), end)
		return
	}
	e.t.larger = settle(e.t.larger.InsertPersist(network, ends{own: end}), network)
}

// Delete deletes the ban of a network.
func (e *Editor) Delete(network netip.Prefix) {
	if !network.IsSingleIP() {
		e.t.larger = settle(e.t.larger.DeletePersist(network), network)
		return
	}
	k := e.t.addrs.key(network.Addr())
	e.t.addrs.remake(&k)
	e.owned[k.shard] = true
}

func (e *Editor) putAddr(addr netip.Addr, end int64) {
	k := e.t.addrs.key(addr)
	if !e.owned[k.shard] || k.shard.full(k.layout) {
		e.t.addrs.remake(&k)
		e.owned[k.shard] = true
	}
	k.put(addr, end)
}

// settle returns a table after the ban of a network has changed. It sets the last end of this network
// and of all networks in it.
func settle(t *bart.Table[ends], changed netip.Prefix) *bart.Table[ends] {
	next := t
	for network, last := range unsettled(t, t.Subnets(changed)) {
		found, _ := t.Get(network)
		next = next.InsertPersist(network, ends{found.own, last})
	}
	return next
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
