package records

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"stint/internal/testkit"
)

// Mentions knows the keys of subjects, bans and overrides, also after the file was opened again.
func TestMentions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	if f.Mentions("user") {
		t.Error("an empty file mentions user")
	}
	put(t, f, Ban{Subject: "user=1"})
	put(t, f, Override{Target: "org=a*", Rule: "r", Requests: 1}, Override{Target: "team=a", Rule: "r", Requests: 1})
	put(t, f, Subject{Name: "plain=1", Kind: User}, Subject{Name: "plain=zz", Kind: User}, Subject{Name: "plain1=1", Kind: User}, Ban{Network: netip.MustParsePrefix("192.0.2.0/24")},
		APIKey{Hash: sumOf("k"), Last: "abcd", Subject: "keyed=1"})
	for range 2 {
		for key, want := range map[string]bool{"user": true, "org": true, "team": true, "plain": true, "plain1": true, "plai": false, "keyed": false, "": false, "192.0.2.0/24": false} {
			if f.Mentions(key) != want {
				t.Errorf("Mentions(%s) is not %v", key, want)
			}
		}
		testkit.Must(t, f.Close())
		f = open(t, path)
	}
}

// A network is banned if one ban covers all of it.
func TestBannedNetwork(t *testing.T) {
	f := openNew(t)
	end := start.Add(time.Hour)
	put(t, f, Ban{Network: netip.MustParsePrefix("2001:db8::/48"), Until: end}, Ban{Network: netip.MustParsePrefix("2001:db8:1::/128")},
		Ban{Network: netip.MustParsePrefix("192.0.2.0/24")})
	for _, tt := range []struct {
		network string
		now     time.Time
		want    bool
		until   time.Time
	}{
		{"2001:db8:0:1::/64", start, true, end},
		{"2001:db8:0:1::/64", end.Add(-1), true, end},
		{"2001:db8:0:1::/64", end, false, time.Time{}},
		{"2001:db8::/47", start, false, time.Time{}},
		{"2001:db8:1::/64", start, false, time.Time{}}, // one address of it alone
		{"2001:db8:1::/128", start, true, time.Time{}},
		{"192.0.2.128/25", start, true, time.Time{}},
		{"::ffff:192.0.2.128/121", start, true, time.Time{}},
		{"192.0.2.0/23", start, false, time.Time{}},
	} {
		until, banned := f.BannedNetwork(netip.MustParsePrefix(tt.network), tt.now)
		if banned != tt.want || !until.Equal(tt.until) {
			t.Errorf("%s at %v: %v until %v", tt.network, tt.now, banned, until)
		}
	}
	if _, banned := f.BannedNetwork(netip.Prefix{}, start); banned {
		t.Error("the zero network is banned")
	}
}
