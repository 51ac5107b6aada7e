package web

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

var trusted = prefixes("10.0.0.0/8", "2001:db8:aaaa::/48", "::ffff:172.16.0.0/108")

func TestClient(t *testing.T) {
	long := strings.Repeat("10.0.0.1, ", 200) + "10.0.0.2"
	tests := []struct {
		name   string
		header string
		peer   string
		lines  []string
		want   string
	}{
		{"untrusted peer", "", "198.51.100.1:9", []string{"203.0.113.1"}, "198.51.100.1"},
		{"no header", "", "10.0.0.1:9", nil, "10.0.0.1"},
		{"one proxy", "", "10.0.0.1:9", []string{"203.0.113.1"}, "203.0.113.1"},
		{"spoofed on the left", "", "10.0.0.1:9", []string{"192.0.2.66, 203.0.113.1"}, "203.0.113.1"},
		{"spoofed trusted on the left", "", "10.0.0.1:9", []string{"192.0.2.66, 10.0.0.7, 203.0.113.1"}, "203.0.113.1"},
		{"two proxies", "", "10.0.0.1:9", []string{"203.0.113.1, 10.0.0.2"}, "203.0.113.1"},
		{"only proxies", "", "10.0.0.1:9", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"several lines are one list", "", "10.0.0.1:9", []string{"192.0.2.66", "203.0.113.1", "10.0.0.3 , 10.0.0.2"}, "203.0.113.1"},
		{"junk stops at the hop that sent it", "", "10.0.0.1:9", []string{"203.0.113.1, junk, 10.0.0.2"}, "10.0.0.2"},
		{"junk alone", "", "10.0.0.1:9", []string{"unknown"}, "10.0.0.1"},
		{"empty entry", "", "10.0.0.1:9", []string{"203.0.113.1,, 10.0.0.2"}, "10.0.0.2"},
		{"empty entry on the right", "", "10.0.0.1:9", []string{"203.0.113.1,"}, "10.0.0.1"},
		{"empty line", "", "10.0.0.1:9", []string{""}, "10.0.0.1"},
		{"list starts with a comma", "", "10.0.0.1:9", []string{",10.0.0.2"}, "10.0.0.2"},
		{"port", "", "10.0.0.1:9", []string{"203.0.113.1:4711"}, "203.0.113.1"},
		{"bad port", "", "10.0.0.1:9", []string{"203.0.113.1:99999"}, "10.0.0.1"},
		{"brackets", "", "10.0.0.1:9", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"brackets and port", "", "10.0.0.1:9", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"open bracket", "", "10.0.0.1:9", []string{"[2001:db8::1"}, "10.0.0.1"},
		{"bare IPv6", "", "10.0.0.1:9", []string{"2001:DB8::1"}, "2001:db8::1"},
		{"zone", "", "10.0.0.1:9", []string{"fe80::1%eth0"}, "fe80::1"},
		{"zone of the peer", "", "[fe80::1%eth0]:9", nil, "fe80::1"},
		{"zone without a name", "", "10.0.0.1:9", []string{"fe80::1%"}, "10.0.0.1"},
		{"mapped", "", "10.0.0.1:9", []string{"::ffff:203.0.113.1"}, "203.0.113.1"},
		{"mapped peer is trusted as IPv4", "", "[::ffff:10.0.0.1]:9", []string{"203.0.113.1"}, "203.0.113.1"},
		{"mapped prefix trusts IPv4", "", "172.16.0.1:9", []string{"203.0.113.1"}, "203.0.113.1"},
		{"trusted IPv6 proxy", "", "[2001:db8:aaaa::1]:9", []string{"203.0.113.1"}, "203.0.113.1"},
		{"leading zeros", "", "10.0.0.1:9", []string{"203.0.113.010"}, "10.0.0.1"},
		{"a number", "", "10.0.0.1:9", []string{"3405803777"}, "10.0.0.1"},
		{"a name", "", "10.0.0.1:9", []string{"localhost"}, "10.0.0.1"},
		{"quoted is no list syntax", "", "10.0.0.1:9", []string{`"203.0.113.1"`}, "10.0.0.1"},
		{"at most so many hops", "", "10.0.0.9:9", []string{"203.0.113.1, " + long}, "10.0.0.1"},
		{"unix socket", "", "@", []string{"203.0.113.1"}, "invalid IP"},
		{"single header", "X-Real-IP", "10.0.0.1:9", []string{"203.0.113.1"}, "203.0.113.1"},

		{"forwarded", "Forwarded", "10.0.0.1:9", []string{"for=203.0.113.1;proto=https;by=10.0.0.1"}, "203.0.113.1"},
		{"forwarded, two hops", "forwarded", "10.0.0.1:9", []string{`for=192.0.2.66, For="203.0.113.1:80", for=10.0.0.2`}, "203.0.113.1"},
		{"forwarded, IPv6", "Forwarded", "10.0.0.1:9", []string{`proto=http; for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"forwarded, obfuscated", "Forwarded", "10.0.0.1:9", []string{"for=203.0.113.1, for=_hidden, for=10.0.0.2"}, "10.0.0.2"},
		{"forwarded, unknown", "Forwarded", "10.0.0.1:9", []string{"for=unknown"}, "10.0.0.1"},
		{"forwarded without for", "Forwarded", "10.0.0.1:9", []string{"for=203.0.113.1, proto=https"}, "10.0.0.1"},
		{"forwarded with two", "Forwarded", "10.0.0.1:9", []string{"for=203.0.113.1;for=203.0.113.2"}, "10.0.0.1"},
		{"forwarded, no pair", "Forwarded", "10.0.0.1:9", []string{"203.0.113.1"}, "10.0.0.1"},
		{"forwarded, comma in quotes", "Forwarded", "10.0.0.1:9", []string{`for=203.0.113.1;host="a,b"`}, "203.0.113.1"},
		{"forwarded, escaped quote", "Forwarded", "10.0.0.1:9", []string{`for=192.0.2.66, for=203.0.113.1;host="a\",b"`}, "203.0.113.1"},
		{"forwarded, text behind a quote", "Forwarded", "10.0.0.1:9", []string{`for="203.0.113.1"x`}, "10.0.0.1"},
		{"forwarded, quote inside a token", "Forwarded", "10.0.0.1:9", []string{`for=203.0.113.1;host=a"b"`}, "10.0.0.1"},
		{"an open quote swallows nothing", "Forwarded", "10.0.0.1:9", []string{`for="192.0.2.66, for=203.0.113.1`}, "203.0.113.1"},
		{"nor before a quoted hop", "Forwarded", "10.0.0.1:9", []string{`for="192.0.2.66, for="[2001:db8::1]"`}, "2001:db8::1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := NewClientFinder(TrustConfig{Trusted: trusted, Header: test.header})
			if got := f.Client(PeerAddr(test.peer), test.lines); got.String() != test.want {
				t.Errorf("client of %s with %q is %s, want %s", test.peer, test.lines, got, test.want)
			}
		})
	}
}

// A peer on a Unix socket has no address, and is trusted only with TrustLocal.
func TestTrustLocal(t *testing.T) {
	f := NewClientFinder(TrustConfig{Trusted: trusted, TrustLocal: true})
	if got := f.Client(PeerAddr("@"), []string{"192.0.2.66, 203.0.113.1"}); got.String() != "203.0.113.1" {
		t.Errorf("client is %s, want 203.0.113.1", got)
	}
	if got := f.Client(PeerAddr("@"), []string{"junk"}); got.IsValid() {
		t.Errorf("client behind junk is %s, want none", got)
	}
	if got := f.Client(PeerAddr("198.51.100.1:9"), []string{"203.0.113.1"}); got.String() != "198.51.100.1" {
		t.Errorf("client is %s, want the untrusted peer", got)
	}
}

func TestGroup(t *testing.T) {
	tests := []struct {
		address string
		bits    int
		want    string
	}{
		{"203.0.113.1", 0, "203.0.113.1"},
		{"203.0.113.1", 24, "203.0.113.1"},
		{"2001:db8:1:2:3:4:5:6", 0, "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff", 64, "2001:db8:1:2::"},
		{"2001:db8:1:2:3:4:5:6", 48, "2001:db8:1::"},
		{"2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:6", 129, "2001:db8:1:2::"},
		{"fe80::1%eth0", 0, "fe80::"},
	}
	for _, test := range tests {
		if got := GroupAddr(netip.MustParseAddr(test.address), test.bits); got.String() != test.want {
			t.Errorf("group of %s by %d bits is %s, want %s", test.address, test.bits, got, test.want)
		}
	}
	if GroupAddr(netip.Addr{}, 0).IsValid() {
		t.Error("the group of no address is an address")
	}
}

// An untrusted hop never chooses the key. A client at a known address writes any header; honest
// proxies each append the address of their peer. The result is the client's own address, or its
// peer's if it did not come through a proxy.
func FuzzClient(f *testing.F) {
	f.Add("", "192.0.2.66", "10.0.0.1", uint8(1), false)
	f.Add("192.0.2.66, ", "", "10.0.0.1", uint8(2), true)
	f.Add(`for="192.0.2.66`, `for="[2001:db8::1]", for=`, `"`, uint8(3), true)
	f.Add(`for=_x;host="\`, ",", `\\"`, uint8(1), false)
	f.Add(strings.Repeat("10.0.0.1,", 300), "junk", "unknown", uint8(90), true)
	const client = "203.0.113.77"
	f.Fuzz(func(t *testing.T, one, two, three string, proxies uint8, joined bool) {
		for _, header := range []string{ForwardedFor, Forwarded, "X-Real-IP"} {
			find := NewClientFinder(TrustConfig{Trusted: trusted, Header: header})
			lines := []string{one, two, three}
			if got := find.Client(netip.MustParseAddr(client), lines); got.String() != client {
				t.Fatalf("%s: an untrusted peer became %s by %q", header, got, lines)
			}
			saw := client
			for i := range proxies%(MaxHops-1) + 1 {
				lines = addHop(lines, header, saw, joined)
				saw = fmt.Sprintf("10.0.%d.1", i)
			}
			if got := find.Client(netip.MustParseAddr(saw), lines); got.String() != client {
				t.Fatalf("%s: the client became %s by %q", header, got, lines)
			}
		}
	})
}

// addHop appends the address saw to the header, as a proxy does.
func addHop(lines []string, header, saw string, joined bool) []string {
	if header == Forwarded {
		saw = fmt.Sprintf(`for="%s:4711";host="a,b"`, saw)
	}
	lines = append([]string(nil), lines...)
	if !joined || len(lines) == 0 {
		return append(lines, saw)
	}
	lines[len(lines)-1] += ", " + saw
	return lines
}

// ParseHost accepts only addresses whose text it can parse again.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"203.0.113.1:80", "[2001:db8::1%x]:80", "::ffff:1.2.3.4", "1.2.3.4%5", ":", "[]", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, ok := ParseHost(s)
		if ok != a.IsValid() || a.Zone() != "" || a.Is4In6() {
			t.Fatalf("%q is read as %v, %v", s, a, ok)
		}
		if b, again := ParseHost(a.String()); ok && (!again || a != b) {
			t.Fatalf("%q is read as %v, then as %v", s, a, b)
		}
	})
}

func BenchmarkClient(b *testing.B) {
	f := NewClientFinder(TrustConfig{Trusted: trusted})
	lines := []string{"192.0.2.66, 203.0.113.1, 10.0.0.2"}
	b.ReportAllocs()
	for b.Loop() {
		GroupAddr(f.Client(PeerAddr("10.0.0.1:54321"), lines), 0)
	}
}

// Trusts works for every spelling of a trusted proxy's address.
func TestTrusts(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/64")}
	for _, local := range []bool{false, true} {
		f := NewClientFinder(TrustConfig{Trusted: proxies, TrustLocal: local})
		for peer, want := range map[string]bool{
			"10.1.2.3:1": true, "[::ffff:10.1.2.3]:1": true, "[fe80::1%eth0]:1": true, "192.0.2.1:1": false, "[fe81::1]:1": false, "@": local,
		} {
			if got := f.Trusts(PeerAddr(peer)); got != want {
				t.Errorf("%s: %v, want %v", peer, got, want)
			}
		}
	}
}

// Find distinguishes a proxy's own address from a client's.
func TestFind(t *testing.T) {
	f := NewClientFinder(TrustConfig{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, test := range []struct {
		peer  string
		lines []string
		want  string
		found ClientFound
	}{
		{"10.0.0.1:1", nil, "10.0.0.1", MissingClient},
		{"10.0.0.1:1", []string{""}, "10.0.0.1", InvalidClient},
		{"10.0.0.1:1", []string{"junk"}, "10.0.0.1", InvalidClient},
		{"10.0.0.1:1", []string{"192.0.2.1, junk, 10.0.0.2"}, "10.0.0.2", InvalidClient},
		{"10.0.0.1:1", []string{"192.0.2.1" + strings.Repeat(", 10.0.0.2", MaxHops)}, "10.0.0.2", InvalidClient},
		{"10.0.0.1:1", []string{"192.0.2.1" + strings.Repeat(", 10.0.0.2", MaxHops-1)}, "192.0.2.1", KnownClient},
		{"10.0.0.1:1", []string{"junk, 192.0.2.1"}, "192.0.2.1", KnownClient},
		{"10.0.0.1:1", []string{"10.0.0.9"}, "10.0.0.9", KnownClient},
		{"192.0.2.7:1", nil, "192.0.2.7", KnownClient},
		{"192.0.2.7:1", []string{"junk"}, "192.0.2.7", KnownClient},
	} {
		if got, found := f.Find(PeerAddr(test.peer), test.lines); got.String() != test.want || found != test.found {
			t.Errorf("%s %.60q: %v %v, want %s %v", test.peer, test.lines, got, found, test.want, test.found)
		}
	}
}
