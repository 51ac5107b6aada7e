package records

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
)

// Overrides, bans and API keys are deleted some time after they ended, and not before; subjects and what
// has no end stay. It is not an entry of the audit trail.
func TestSweep(t *testing.T) {
	f := openNew(t)
	hour := start.Add(time.Hour)
	key := keyOf("k", "user=1")
	key.Until = hour
	ending := []Record{
		Override{Target: "user=1", Rule: "r", Burst: 1, Until: hour},
		Override{Target: "user=t-*", Rule: "r", Burst: 1, Until: hour},
		Ban{Subject: "user=1", Until: hour},
		Ban{Network: network("192.0.2.7/32"), Until: hour},
		key,
	}
	staying := []Record{
		Subject{Name: "user=1", Kind: User, Plan: "pro", PlanUntil: hour},
		Override{Target: "user=2", Rule: "r", Burst: 1},
		Ban{Subject: "user=2", Until: hour.Add(time.Second)},
		Ban{Network: network("192.0.2.0/24")},
		keyOf("k2", "user=1"),
	}
	put(t, f, append(ending, staying...)...)
	entries := len(trailOf(t, f))
	for n, want := range []int{10, 10, 5, 5} {
		// The change itself is a deletion or a new record, so that the trail has one more entry each time.
		apply(t, f, Change{Edits: []Edit{{Put: Subject{Name: "user=3", Kind: User, Notes: fmt.Sprint(n)}}}}, hour.Add(endedFor+time.Duration(n-2)*time.Microsecond))
		if got := len(contentOf(t, f)) - 1; got != want {
			t.Errorf("round %d: %d records, want %d", n, got, want)
		}
	}
	wantWhole(t, f, entries+4)
	for _, r := range staying {
		if _, ok, err := f.Get(r.ID()); !ok || err != nil {
			t.Errorf("%v is gone, %v", r.ID(), err)
		}
	}
	if _, banned := f.BannedAddress(network("192.0.2.7/32").Addr(), hour); !banned || f.memory.Load().patterns.Len() != 0 {
		t.Error("memory is not that of the file")
	}
}

// However many bans end, about as many are kept as are not yet old; also when the file is opened again
// and again, and has records that never end.
func TestSweepKeepsUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	var forever []Record
	for n := range 1000 {
		forever = append(forever, Override{Target: fmt.Sprint("user=", n), Rule: "r", Burst: 1})
	}
	put(t, f, forever...)
	const each = 300
	most := 0
	for n := range 60 {
		if n%7 == 0 {
			testkit.Must(t, f.Close())
			f = open(t, path)
		}
		now := start.Add(time.Duration(n) * endedFor / 2)
		var c Change
		for i := range each {
			c.Edits = append(c.Edits, Edit{Put: Ban{Network: netip.PrefixFrom(testkit.ScatteredAddress(n*each+i), testkit.ScatteredAddress(n*each+i).BitLen()), Until: now.Add(time.Hour)}})
		}
		apply(t, f, c, now)
		if n > 30 {
			most = max(most, len(contentOf(t, f)))
		}
	}
	young := len(forever) + 3*each
	if most > 2*young+each {
		t.Errorf("%d records, of which at most %d are young", most, young)
	}
	t.Logf("at most %d records, of which about %d are young", most, young)
}

// A change looks at a limited number of records.
func TestSweepIsBounded(t *testing.T) {
	f := openNew(t)
	var c Change
	for i := range 1000 {
		c.Edits = append(c.Edits, Edit{Put: Ban{Network: netip.PrefixFrom(testkit.ScatteredAddress(2*i), 32), Until: start.Add(time.Hour)}})
	}
	apply(t, f, c, start)
	late := start.Add(2 * endedFor)
	for n := range 3 {
		before := len(contentOf(t, f))
		put1 := Change{Edits: []Edit{{Put: Subject{Name: fmt.Sprint("user=", n), Kind: User}}}}
		apply(t, f, put1, late)
		if got := before + 1 - len(contentOf(t, f)); got != sweepMost {
			t.Errorf("%d records deleted, want %d", got, sweepMost)
		}
	}
}

// A damaged record stays, and other records can be changed.
func TestSweepDamaged(t *testing.T) {
	f := openNew(t)
	put(t, f, banned, ban)
	testkit.Must(t, f.copy.UpdateLocal(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketOf(Bans)).Put([]byte(banned.ID().Name), []byte("damaged"))
	}))
	apply(t, f, Change{Edits: []Edit{{Put: subject}}}, friday.Add(-time.Second))
	apply(t, f, Change{Edits: []Edit{{Put: pattern}}}, friday.Add(2*endedFor))
	_, _, err := f.Get(banned.ID())
	wantFault(t, err, "records.db", "has another checksum", "put back", ErrDamaged)
	if _, there, err := f.Get(ban.ID()); there || err != nil {
		t.Errorf("an ended ban is there, %v", err)
	}
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: banned}}}, start)
	wantFault(t, err, "records.db", "has another checksum", "put back", ErrDamaged)
}
