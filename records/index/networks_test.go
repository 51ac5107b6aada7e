package index

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// A table that was changed step by step, and one that was made at once, find the last end of all
// networks around an address. Tables that were shared before stay as they were.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	bans, table := map[netip.Prefix]int64{}, NewTable(maps.All(map[netip.Prefix]int64{}))
	want := func(addr netip.Addr) (end int64, ok bool) {
		for network, until := range bans {
			if network.Contains(addr) {
				end, ok = max(end, until), true
			}
		}
		return end, ok
	}
	check := func(table Table) {
		t.Helper()
		for range 20 {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), byte(r.IntN(8))})
			wantEnd, wantOK := want(addr)
			if end, ok := table.End(addr); end != wantEnd || ok != wantOK {
				t.Fatalf("%s is banned until %d, %v; want %d, %v; bans %v", addr, end, ok, wantEnd, wantOK, bans)
			}
		}
	}
	for range 500 {
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), byte(r.IntN(8))}), 24+r.IntN(9)).Masked()
		before := table
		if r.IntN(3) == 0 {
			e := table.Edit()
			e.Delete(network)
			table = e.Table()
			check(before)
			delete(bans, network)
		} else {
			end := int64(1 + r.IntN(5))
			e := table.Edit()
			e.Put(network, end)
			table = e.Table()
			check(before)
			bans[network] = end
		}
		check(table)
		check(NewTable(maps.All(bans)))
	}
}

// Many addresses of both families are found, and others are not, after many changes in one Editor and
// in several.
func TestManyAddresses(t *testing.T) {
	const n = 60_000
	addr := func(i int) netip.Addr {
		if i%2 == 0 {
			return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i), 14: byte(i >> 8), 13: byte(i >> 16)})
	}
	table := NewTable(func(yield func(netip.Prefix, int64) bool) {
		for i := range n {
			if !yield(netip.PrefixFrom(addr(i), addr(i).BitLen()), int64(i+1)) {
				return
			}
		}
	})
	check := func(table Table, want func(i int) int64) {
		t.Helper()
		for i := range 2 * n {
			if end, ok := table.End(addr(i)); end != want(i) || ok != (want(i) != 0) {
				t.Fatalf("address %d is banned until %d, %v; want %d", i, end, ok, want(i))
			}
		}
	}
	first := func(i int) int64 {
		if i < n {
			return int64(i + 1)
		}
		return 0
	}
	check(table, first)
	before := table
	for range 2 {
		e := table.Edit()
		for i := range 2 * n {
			switch network := netip.PrefixFrom(addr(i), addr(i).BitLen()); i % 3 {
			case 0:
				e.Delete(network)
			case 1:
				e.Put(network, 7)
			}
		}
		table = e.Table()
	}
	check(before, first)
	check(table, func(i int) int64 { return []int64{0, 7, first(i)}[i%3] })
}

// Ends that need more than 32 bits are kept, and so is that there is none, when the tables grow and are copied.
func TestFarEnds(t *testing.T) {
	ends := []int64{NoEnd, 1, 1<<32 - 3, 1<<32 - 2, 1<<32 - 1, 1 << 32, 253402300799} // the last in the year 9999
	addr := func(i int) netip.Addr {
		if i%2 == 0 {
			return netip.AddrFrom4([4]byte{0, byte(i >> 16), byte(i >> 8), byte(i)}) // 0.0.0.0 too
		}
		return netip.AddrFrom16([16]byte{15: byte(i), 14: byte(i >> 8), 13: byte(i >> 16)})
	}
	const n = 20_000
	e := NewTable(func(func(netip.Prefix, int64) bool) {}).Edit()
	for i := range n {
		e.Put(netip.PrefixFrom(addr(i), addr(i).BitLen()), ends[i%len(ends)])
	}
	table := e.Table()
	e = table.Edit()
	for i := 0; i < n; i += 3 {
		e.Delete(netip.PrefixFrom(addr(i), addr(i).BitLen()))
	}
	for i := 1; i < n; i += 3 {
		e.Put(netip.PrefixFrom(addr(i), addr(i).BitLen()), ends[(i+1)%len(ends)])
	}
	for i := range n {
		want := []int64{0, ends[(i+1)%len(ends)], ends[i%len(ends)]}[i%3]
		if end, ok := e.Table().End(addr(i)); end != want || ok != (want != 0) {
			t.Fatalf("%s is banned until %d, %v; want %d", addr(i), end, ok, want)
		}
		if end, _ := table.End(addr(i)); end != ends[i%len(ends)] {
			t.Fatalf("the old table has %d for %s", end, addr(i))
		}
	}
}
