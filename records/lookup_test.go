package records

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/records/apikey"
)

func lookup(t testing.TB, f *File, key, value string) *Known {
	t.Helper()
	known, err := f.Lookup(key, value)
	testkit.Must(t, err)
	return known
}

// Each look-up is made from the file, from the cache, and after the file was opened again.
func TestPrecedence(t *testing.T) {
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	o := func(target string, requests uint32, until time.Time) Record {
		return Override{Target: target, Rule: "api", Requests: requests, Until: until, Why: "test"}
	}
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	put(t, f, o("user=test-1", 1, day(1)))
	put(t, f, o("user=test-*", 2, day(9)))
	put(t, f, o("user=*-1*", 3, time.Time{}), o("user=te*", 30, time.Time{}), o("user=*te", 31, time.Time{})) // as one change: by name
	put(t, f, o("user=t*s*1", 4, day(2)))
	put(t, f, o("user=*-12", 5, day(3)))
	put(t, f, o("org=test-*", 6, time.Time{}))
	put(t, f, Override{Target: "user=test-1", Rule: "other", Unlimited: true}, Override{Target: "user=test-12", Rule: "api2", Burst: 7})
	for range 2 {
		for range 2 {
			for _, tt := range []struct {
				key, value string
				now        time.Time
				want       uint32
			}{
				{"user", "test-1", start, 1},          // exact
				{"user", "test-1", day(1).Add(-1), 1}, // to the second
				{"user", "test-1", day(1), 2},         // ended; the longest pattern
				{"user", "test-1", day(9), 3},         // two of 2 bytes: of one change, the first by name
				{"user", "test-12", start, 2},         // 5 bytes before 3
				{"user", "test-12", day(9), 3},        // by name before te*
				{"user", "s-12", start, 5},            // 3 bytes before 2
				{"user", "s-12", day(3), 3},           // ended
				{"user", "txs1", start, 4},            // stars between
				{"user", "texs1", start, 4},           // 3 bytes
				{"user", "texs1", day(2), 30},
				{"user", "mate", start, 31},
				{"user", "nobody", start, 0},
				{"org", "test-1", start, 6}, // patterns of its key alone
				{"Org", "test-1", start, 0},
				{"user", "test-*", start, 2},                         // not the pattern's name, but its text
				{"user=test", "-1", start, 0},                        // not a subject
				{"user", "te" + strings.Repeat("x", 9e3), start, 30}, // longer than a subject
			} {
				got := uint32(0)
				if o := lookup(t, f, tt.key, tt.value).Override("api", tt.now); o != nil {
					got = o.Requests
				}
				if got != tt.want {
					t.Errorf("%s=%.20s at %v: the override to %d, want %d", tt.key, tt.value, tt.now, got, tt.want)
				}
			}
		}
		testkit.Must(t, f.Close())
		f = open(t, path)
	}
	if o := lookup(t, f, "user", "test-1").Override("other", start); o == nil || !o.Unlimited {
		t.Errorf("the override of another rule is %v", o)
	}
	// A newer one of the same length comes first.
	put(t, f, o("user=te*", 30, time.Time{}))
	if o := lookup(t, f, "user", "test-1").Override("api", day(9)); o.Requests != 30 {
		t.Errorf("the override to %d, want the newer", o.Requests)
	}
}

// A change is in force for subjects in the cache, whatever it changes.
func TestLookupSeesChanges(t *testing.T) {
	f := openNew(t)
	long := strings.Repeat("x", MaxText)
	show := func() string {
		known := lookup(t, f, "user", "42")
		text := ""
		if known.Subject != nil {
			text += known.Subject.Plan + known.Subject.Notes + " "
		}
		if ban := known.Ban(start); ban != nil {
			text += "banned" + ban.Why + " "
		}
		if o := known.Override("api/user", start); o != nil {
			text += fmt.Sprint(o.Requests, o.Why)
		}
		return strings.TrimSpace(text)
	}
	all := Override{Target: "user=4*", Rule: "api/user", Requests: 4, Why: long}
	noted, reasoned, barred := subject, override, banned
	noted.Notes, reasoned.Why, barred.Why = long, long, long
	for _, tt := range []struct {
		edit Edit
		want string
	}{
		{Edit{Put: Subject{Name: "user=43", Kind: User, Plan: "other"}}, ""},
		{Edit{Put: noted}, "pro"},
		{Edit{Put: barred}, "pro banned"},
		{Edit{Put: all}, "pro banned 4"},
		{Edit{Put: reasoned}, "pro banned 7"},
		{Edit{Delete: banned.ID()}, "pro 7"},
		{Edit{Delete: override.ID()}, "pro 4"},
		{Edit{Delete: all.ID()}, "pro"},
		{Edit{Delete: subject.ID()}, ""},
	} {
		_, err := f.Apply(t.Context(), Change{Edits: []Edit{tt.edit}}, start)
		testkit.Must(t, err)
		for range 2 {
			if got := show(); got != tt.want {
				t.Errorf("after %v: %q, want %q", tt.edit.id(), got, tt.want)
			}
		}
	}
}

// A change that is refused is not in force.
func TestRefusedChangeIsNotInForce(t *testing.T) {
	f := openNew(t)
	put(t, f, subject)
	lookup(t, f, "user", "42")
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: ban}, {Put: banned}, {Delete: override.ID()}}, IdempotencyKey: "k"}, start)
	wantFault(t, err, "override", "no such record", "list", ErrMissing)
	if _, banned := f.BannedAddress(netip.MustParseAddr("192.0.2.7"), start); banned || lookup(t, f, "user", "42").Ban(start) != nil {
		t.Error("a ban of a refused change is in force")
	}
}

func TestSubjectBanEndsToTheSecond(t *testing.T) {
	f := openNew(t)
	put(t, f, Ban{Subject: "user=42", Until: friday})
	for now, want := range map[time.Time]bool{start: true, friday.Add(-1): true, friday: false} {
		if got := lookup(t, f, "user", "42").Ban(now) != nil; got != want {
			t.Errorf("at %v banned: %v", now, got)
		}
	}
}

func TestMaxPatterns(t *testing.T) {
	f := openNew(t)
	var c Change
	for n := range MaxPatterns {
		c.Edits = append(c.Edits, Edit{Put: Override{Target: fmt.Sprint("user=", n, "-*"), Rule: "api", Requests: 1}})
	}
	_, err := f.Apply(t.Context(), c, start)
	testkit.Must(t, err)
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: Override{Target: "user=x*", Rule: "api", Requests: 1}}}}, start)
	wantFault(t, err, "overrides", "1001 patterns, at most 1000", "plans", nil)
	if got := lookup(t, f, "user", "x1").Override("api", start); got != nil {
		t.Errorf("the pattern too many is in force: %v", got)
	}
	put(t, f, Override{Target: "user=0-*", Rule: "api", Requests: 2}) // replaces one
	if got := lookup(t, f, "user", "0-1").Override("api", start); got == nil || got.Requests != 2 {
		t.Errorf("the changed pattern is %v", got)
	}
}

// bannedBy is BannedAddress for a list of bans.
func bannedBy(bans map[netip.Prefix]time.Time, addr netip.Addr, now time.Time) (last time.Time, banned bool) {
	forever := false
	for network, until := range bans {
		if network.Contains(addr) && inForce(until, now) {
			banned, forever = true, forever || until.IsZero()
			if until.After(last) {
				last = until
			}
		}
	}
	if forever {
		last = time.Time{}
	}
	return last, banned
}

// Random bans of networks in networks are compared with a list of them.
func TestBannedAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	r := rand.New(rand.NewPCG(3, 4))
	bans := map[netip.Prefix]time.Time{}
	random := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), byte(r.IntN(3)), byte(r.IntN(4))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 2: byte(r.IntN(3)), 15: byte(r.IntN(4))})
	}
	check := func() {
		for range 100 {
			addr, now := random(), start.Add(time.Duration(r.IntN(12))*time.Hour)
			want, wantBan := bannedBy(bans, addr, now)
			if addr.Is4() && r.IntN(2) == 0 {
				addr = netip.AddrFrom16(addr.As16())
			}
			if until, banned := f.BannedAddress(addr, now); banned != wantBan || !until.Equal(want) {
				t.Fatalf("%v at %v: %v until %v, want %v until %v of %v", addr, now, banned, until, wantBan, want, bans)
			}
		}
	}
	for round := range 150 {
		addr := random()
		bits := 32 - []int{0, 0, 8, 16, 24}[r.IntN(5)]
		if addr.Is6() {
			bits = 128 - []int{0, 0, 64, 100, 104}[r.IntN(5)]
		}
		network, err := addr.Prefix(bits)
		testkit.Must(t, err)
		if _, there := bans[network]; there && r.IntN(2) == 0 {
			delete(bans, network)
			_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Delete: Ban{Network: network}.ID()}}}, start)
			testkit.Must(t, err)
		} else {
			ban := Ban{Network: network, Until: start.Add(time.Duration(1+r.IntN(10)) * time.Hour)}
			if r.IntN(8) == 0 {
				ban.Until = time.Time{}
			}
			bans[network] = ban.Until
			put(t, f, ban)
		}
		if round%10 == 9 {
			testkit.Must(t, f.Close())
			f = open(t, path)
		}
		check()
	}
	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("fe80::1%eth0")} {
		if _, banned := f.BannedAddress(addr, start); banned {
			t.Errorf("%v is banned", addr)
		}
	}
}

func TestBanOfAddressWithZone(t *testing.T) {
	f := openNew(t)
	put(t, f, Ban{Network: network("fe80::/64")})
	if until, banned := f.BannedAddress(netip.MustParseAddr("fe80::1%eth0"), start); !banned || !until.IsZero() {
		t.Errorf("banned: %v, until %v", banned, until)
	}
}

func TestKeyLookup(t *testing.T) {
	f := openNew(t)
	valid := func(hash apikey.Hash, now time.Time) string {
		k, err := f.Key(hash, now)
		testkit.Must(t, err)
		if k == nil {
			return ""
		}
		return k.Subject + k.Why
	}
	key := keyOf("a", "user=42")
	key.Until, key.Why = friday, "for tests"
	if got := valid(key.Hash, start); got != "" {
		t.Errorf("an unknown key is of %s", got)
	}
	put(t, f, key)
	for range 2 {
		if got := valid(key.Hash, friday.Add(-1)); got != "user=42" {
			t.Errorf("the key is of %q", got)
		}
		if got := valid(key.Hash, friday); got != "" {
			t.Errorf("an expired key is of %s", got)
		}
	}
	key.Subject = "user=43"
	put(t, f, key)
	if got := valid(key.Hash, start); got != "user=43" {
		t.Errorf("the changed key is of %q", got)
	}
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Delete: key.ID()}}}, start)
	testkit.Must(t, err)
	if got := valid(key.Hash, start); got != "" {
		t.Errorf("a revoked key is of %s", got)
	}
}

// Look-ups that run while records change never leave an old record in the cache.
func TestLookupsBesideChanges(t *testing.T) {
	f := openNew(t)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := f.Lookup("user", "42"); err != nil {
					t.Error(err)
					return
				}
				if _, err := f.Key(sumOf("k"), start); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	changes := 2000
	if testing.Short() {
		changes = 300
	}
	for n := range changes {
		plan := fmt.Sprint("plan-", n)
		put(t, f, Subject{Name: "user=42", Kind: User, Plan: plan}, APIKey{Hash: sumOf("k"), Last: "abcd", Subject: "user=" + plan})
		known := lookup(t, f, "user", "42")
		key, err := f.Key(sumOf("k"), start)
		testkit.Must(t, err)
		if known.Subject.Plan != plan || key.Subject != "user="+plan {
			t.Fatalf("after change %d the plan is %s, and the key is of %s", n, known.Subject.Plan, key.Subject)
		}
	}
	close(done)
	readers.Wait()
}

// The cache keeps at most 10,000 subjects, and those that are used often.
func TestCacheIsBounded(t *testing.T) {
	f := openNew(t)
	put(t, f, subject)
	size := f.subjects.Len
	kept := func() bool { _, ok := f.subjects.Get(entryName{"user", "42"}); return ok }
	lookup(t, f, "user", "42")
	for n := range 25_000 {
		lookup(t, f, "ip", fmt.Sprint(n))
		if !kept() {
			t.Fatalf("after %d other subjects a busy one was evicted", n)
		}
	}
	if got := size(); got < 9_000 || got > 10_000 {
		t.Errorf("%d subjects in the cache", got)
	}
	put(t, f, pattern) // any subject may match it
	if got := size(); got != 0 {
		t.Errorf("%d subjects in the cache after the change of a pattern", got)
	}
	// Large ones are read from the file each time.
	large := Subject{Name: "user=43", Kind: User}
	for n := range 20 {
		large.Groups = append(large.Groups, strings.Repeat(fmt.Sprint(n%10), 200)+fmt.Sprint(n))
	}
	put(t, f, large)
	if got := lookup(t, f, "user", "43").Subject; got == nil || len(got.Groups) != 20 || size() != 0 {
		t.Errorf("%d in the cache, of a subject with many groups", size())
	}
}

// A damaged record is an error of the look-up, and bans are checked when the file is opened.
func TestDamagedLookup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	put(t, f, subject, override, banned, ban, pattern, keyOf("k", "user=42"))
	testkit.Must(t, f.Close())
	for _, id := range []ID{subject.ID(), override.ID(), banned.ID(), ban.ID(), pattern.ID(), keyOf("k", "").ID()} {
		db, err := bolt.Open(path, 0o600, nil)
		testkit.Must(t, err)
		var good []byte
		set := func(value []byte) {
			testkit.Must(t, db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket(bucketOf(id.Kind))
				good = append([]byte(nil), b.Get([]byte(id.Name))...)
				return b.Put([]byte(id.Name), value)
			}))
		}
		set([]byte("damaged"))
		testkit.Must(t, db.Close())
		f, err := Open(path, Options{})
		if err == nil {
			_, err = f.Lookup("user", "42")
			if id.Kind == APIKeys {
				_, err = f.Key(sumOf("k"), start)
			}
			testkit.Must(t, f.Close())
		}
		wantFault(t, err, "records.db", "has another checksum", "put back", ErrDamaged)
		db, err = bolt.Open(path, 0o600, nil)
		testkit.Must(t, err)
		set(good)
		testkit.Must(t, db.Close())
	}
}
