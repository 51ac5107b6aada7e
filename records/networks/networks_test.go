package networks

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
	bans, table := map[netip.Prefix]int64{}, New(maps.All(map[netip.Prefix]int64{}))
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
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), byte(r.IntN(8))}), 20+r.IntN(13)).Masked()
		before := table
		if r.IntN(3) == 0 {
			table = table.Without(network)
			check(before)
			delete(bans, network)
		} else {
			end := int64(1 + r.IntN(5))
			table = table.With(network, end)
			check(before)
			bans[network] = end
		}
		check(table)
		check(New(maps.All(bans)))
	}
}
