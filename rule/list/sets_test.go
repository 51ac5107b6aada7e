package list

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"stint/internal/testkit"
)

func TestNetworks(t *testing.T) {
	var n networkSet
	for _, text := range []string{"192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "2001:db8::/48", "::ffff:203.0.113.0/120", "::ffff:203.0.114.9", "fe80::1"} {
		if err := n.Add(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n.Len() != 7 {
		t.Errorf("%d networks, want 7", n.Len())
	}
	for text, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.0": false, "::ffff:192.0.2.9": true,
		"198.51.100.7": true, "198.51.100.8": false, "203.0.113.77": true, "203.0.114.9": true,
		"2001:db8:ffff::1": true, "2001:db9::1": false, "fe80::1%eth0": true, "fe80::2": false,
		"192.0.2.0/24": true, "192.0.2.128/25": true, "192.0.2.5/25": true, "192.0.0.0/16": false, "2001:db8:1:2::/64": true,
		"::ffff:192.0.2.0/120": true, "": false, "ann": false, "192.0.2": false,
	} {
		if got := n.Has(text); got != want {
			t.Errorf("Has(%q) is %v", text, got)
		}
		if addr, err := netip.ParseAddr(text); err == nil && n.Holds(addr) != want {
			t.Errorf("Holds(%s) is %v", addr, !want)
		}
	}
	if n.Holds(netip.Addr{}) || new(networkSet).Has("192.0.2.1") {
		t.Error("no address, or no network, is a match")
	}
}

// What is no network is refused with a hint, in a file with its line, and of many
// faults the first are named.
func TestRead(t *testing.T) {
	for _, tt := range []struct {
		text string
		set  listSet
		want string
		n    int
	}{
		{"", new(networkSet), "", 0},
		{"\ufeff# office\r\n 192.0.2.0/24 \r\n\r\n\t192.0.2.0/24\n2001:db8::/32", new(networkSet), "", 2},
		{"192.0.2.0/24\n\n192.0.2.0/33\n192.0.2.1\n", new(networkSet), `3 "192.0.2.0/33" is neither a network nor an address`, 2},
		{"192.0.2.1/24", new(networkSet), `1 "192.0.2.1/24" is an address inside a network`, 0},
		{"192.0.2.1, 192.0.2.2", new(networkSet), `1 "192.0.2.1, 192.0.2.2" is neither a network nor an address`, 0},
		{"fe80::1%eth0", new(networkSet), `1 "fe80::1%eth0" is neither a network nor an address`, 0},
		{strings.Repeat("x", 1000), new(networkSet), `1 "` + strings.Repeat("x", 60) + `..." is neither a network nor an address`, 0},
		{"ann\n# bob\n  cid  \nann\n", make(textSet), "", 2},
		{"a b # c", make(textSet), "", 1},
	} {
		var got []string
		for _, f := range readList([]byte(tt.text), tt.set) {
			got = append(got, fmt.Sprint(f.Line, " ", f.Problem))
			if f.Hint == "" || f.Error() == "" {
				t.Errorf("%q: no hint", tt.text)
			}
		}
		if strings.Join(got, "\n") != tt.want || tt.set.Len() != tt.n {
			t.Errorf("%.50q: %s with %d elements, want %s with %d", tt.text, got, tt.set.Len(), tt.want, tt.n)
		}
	}
	if n := len(readList([]byte(strings.Repeat("x\n", 1000)), new(networkSet))); n != maxListFaults {
		t.Errorf("%d faults", n)
	}
	if err := make(textSet).Add(" "); err == nil {
		t.Error("an empty text is in a list")
	}
}

// many returns networks of IPv4 and IPv6, and addresses that are partly in them.
func many(n int) (*networkSet, []netip.Addr) {
	random := rand.New(rand.NewPCG(1, 2))
	set := new(networkSet)
	asked := make([]netip.Addr, 1024)
	for i := range n {
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], random.Uint32())
		prefix, _ := netip.AddrFrom4(four).Prefix(16 + random.IntN(17))
		if i%4 == 0 {
			six := [16]byte{0x20, 0x01}
			binary.BigEndian.PutUint64(six[2:], random.Uint64())
			prefix, _ = netip.AddrFrom16(six).Prefix(32 + random.IntN(33))
		}
		if err := set.Add(prefix.String()); err != nil {
			panic(err)
		}
		if i%2 == 0 {
			asked[i%len(asked)] = prefix.Addr()
		} else {
			asked[i%len(asked)] = netip.AddrFrom4(four).Next()
		}
	}
	return set, asked
}

func TestLookUpAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Log("the race detector allocates")
		return
	}
	set, asked := many(2000)
	if n := testing.AllocsPerRun(1000, func() { set.Holds(asked[7]); set.Has("192.0.2.1") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An address is looked up in 100,000 networks in less than 200 ns.
func BenchmarkNetworks(b *testing.B) {
	set, asked := many(100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		set.Holds(asked[i%len(asked)])
		i++
	}
}

// A list of its own is read as a whole or not at all, and every fault names its line.
func TestParseNetworks(t *testing.T) {
	l, err := ParseNetworks("allow.txt", []byte("# office\n192.0.2.0/24\n2001:db8::/32\n"))
	if err != nil || l.Set.Len() != 2 || !l.Networks.Holds(netip.MustParseAddr("192.0.2.7")) || l.Status != 403 || l.Exempt {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = ParseNetworks("allow.txt", []byte("192.0.2.0/24\nx\n192.0.2.1/24\n"))
	want := "allow.txt:2: \"x\" is neither a network nor an address\n  hint: write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7\n" +
		"allow.txt:3: \"192.0.2.1/24\" is an address inside a network\n  hint: write 192.0.2.0/24 for the network, or 192.0.2.1 for the one address"
	if l != nil || err == nil || err.Error() != want {
		t.Errorf("%+v, %v", l, err)
	}
}
