package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// noon is the time of the tests of snapshots.
var noon = stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))

// kept returns limits for all kinds of states, and for each a limit of the same algorithm with
// other numbers.
func kept(t testing.TB) (limits, changed []*stint.Limit) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	all := append([]stint.Spec(nil), specs...)
	all = append(all,
		stint.Spec{Algorithm: stint.FixedWindow, Requests: 100, Calendar: stint.Month, Anchor: 31, Zone: berlin},
		stint.Spec{Algorithm: stint.FixedWindow, Requests: 100, Calendar: stint.Day},
		stint.Spec{Algorithm: stint.SlidingLog, Requests: 100, Per: time.Hour, MinInterval: time.Millisecond, CountDenied: true},
		stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Overdraw: true},
		stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Reserve: true},
		stint.Spec{Algorithm: stint.SlidingWindow, Requests: 100, Per: time.Hour, StartUsedUp: true},
		stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: time.Hour, Burst: 99, MaxWait: 30 * time.Minute},
	)
	for _, spec := range all {
		limits = append(limits, limit(t, spec))
		spec.Requests = 200
		if spec.Burst > 0 {
			spec.Burst = 199
		}
		changed = append(changed, limit(t, spec))
	}
	return limits, changed
}

// fill takes i%90+1 units of n keys, each under the next limit, at several times.
func fill(s *Store, limits []*stint.Limit, n int, now *stint.Instant) {
	for i := range n {
		for range 3 {
			*now += 1500
			s.Take(stint.Key(fmt.Sprint("key", i)), limits[i%len(limits)], uint32(i%30+1))
		}
	}
}

// snapshot returns the snapshot of the store.
func snapshot(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A store that was loaded from a snapshot decides as the one that wrote it, a while later too, also
// under limits whose numbers have changed meanwhile.
func TestSnapshotRoundTrip(t *testing.T) {
	now := noon
	options := Options{Clock: func() stint.Instant { return now }}
	limits, changed := kept(t)
	const keys = 1200
	for _, away := range []time.Duration{0, 20 * time.Minute, 40 * 24 * time.Hour} {
		now = noon
		before := New(options)
		fill(before, limits, keys, &now)
		written := snapshot(t, before)
		now = now.Add(away)
		after, err := Load(bytes.NewReader(written), options)
		if err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			key := stint.Key(fmt.Sprint("key", i))
			for _, l := range []*stint.Limit{limits[i%len(limits)], changed[i%len(limits)]} {
				for _, cost := range []uint32{0, 7, 100} {
					if want, got := before.Take(key, l, cost), after.Take(key, l, cost); got != want {
						t.Fatalf("%v later, key %d, cost %d of %+v:\n got %+v\nwant %+v", away, i, cost, l.Spec(), got, want)
					}
				}
			}
		}
		if stats := after.Stats(); away > 31*24*time.Hour && stats.Expired != keys {
			t.Errorf("%v later: %+v, want all expired", away, stats)
		}
	}
}

// More sets of numbers than the registry holds, each with its own state.
func TestSnapshotOfManyNumbers(t *testing.T) {
	now := noon
	options := Options{Clock: func() stint.Instant { return now }}
	s := New(options)
	const sets = 3000
	numbered := func(i int) *stint.Limit {
		return limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(i + 10), Per: time.Hour})
	}
	for i := range sets {
		s.Take(stint.Key(fmt.Sprint("key", i)), numbered(i), uint32(i+5))
	}
	if s.Stats().Keys != sets || s.limits.id(numbered(sets)) != 0 {
		t.Fatalf("%+v: want the registry to be full", s.Stats())
	}
	s, err := Load(bytes.NewReader(snapshot(t, s)), options)
	if err != nil {
		t.Fatal(err)
	}
	s, err = Load(bytes.NewReader(snapshot(t, s)), options) // and once more
	if err != nil {
		t.Fatal(err)
	}
	for i := range sets {
		if d := s.Take(stint.Key(fmt.Sprint("key", i)), numbered(i), 0); d.Remaining != 5 {
			t.Fatalf("key %d: %+v", i, d)
		}
	}
}

// Numbers without a live state are not written: they do not add up over restarts.
func TestSnapshotForgetsNumbers(t *testing.T) {
	now := noon
	s := New(Options{Clock: func() stint.Instant { return now }})
	empty := len(snapshot(t, s))
	limits, _ := kept(t)
	fill(s, limits, 500, &now)
	now = now.Add(40 * 24 * time.Hour)
	if n := len(snapshot(t, s)); n > empty+10 {
		t.Errorf("%d bytes of expired states, %d of none", n, empty)
	}
}

// States in a time zone without a known name are left out, and the rest is saved.
func TestSnapshotOfNamelessZone(t *testing.T) {
	options := Options{Clock: func() stint.Instant { return noon }}
	s := New(options)
	nowhere := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Calendar: stint.Day, Zone: time.FixedZone("Nowhere", 60)})
	plain := limit(t, specs[0])
	s.Take("a", nowhere, 5)
	s.Take("b", plain, 100)
	s, err := Load(bytes.NewReader(snapshot(t, s)), options)
	if err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); stats.Keys != 1 || s.Take("b", plain, 1).Allowed {
		t.Errorf("%+v: want the key of the plain limit alone", stats)
	}
}

// If time goes backwards over a restart, by as much as clocks may differ, dropped states admit
// nothing again. If it goes back further, the clock that dropped them was ahead, and its time is
// ignored.
func TestSnapshotBackwards(t *testing.T) {
	now := noon
	options := Options{Clock: func() stint.Instant { return now }}
	for _, later := range []time.Duration{5 * time.Second, 24 * time.Hour} {
		for _, when := range []string{"before the snapshot", "before the load"} {
			l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second})
			log := limit(t, stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second})
			now = noon
			s := New(options)
			s.Take("a", l, 5)
			s.Take("a", log, 5)
			if when == "before the snapshot" {
				now = now.Add(later)
			}
			written := snapshot(t, s)
			now = noon.Add(later)
			s, err := Load(bytes.NewReader(written), options)
			if err != nil {
				t.Fatal(err)
			}
			now = noon
			want := time.Second
			if later == 5*time.Second {
				want += later
			}
			for _, one := range []*stint.Limit{l, log} {
				if d := s.Take("a", one, 5); d.At != noon || d.ResetAfter != want {
					t.Errorf("%v, expired %s %v later: %+v, want a reset after %v", one.Algorithm(), when, later, d, want)
				}
			}
		}
	}
}

// A state file of a process whose clock was a day ahead, read with a right clock, denies for no
// longer than a full use, both takes and peeks.
func TestSnapshotOfAFastClock(t *testing.T) {
	for _, cost := range []uint32{0, 1} {
		now := noon.Add(24 * time.Hour)
		options := Options{Clock: func() stint.Instant { return now }}
		s := New(options)
		var limits []*stint.Limit
		for _, spec := range []stint.Spec{
			{Algorithm: stint.TokenBucket},
			{Algorithm: stint.LeakyBucket, Burst: 4},
			{},
			{FromFirst: true},
			{CarryDebt: true},
			{Algorithm: stint.SlidingLog},
			{Algorithm: stint.SlidingWindow, Blocks: 6},
		} {
			spec.Requests, spec.Per = 5, time.Minute
			l := limit(t, spec)
			limits = append(limits, l)
			s.Take(stint.Key(rune('a'+len(limits))), l, 5)
		}
		written := snapshot(t, s)
		now = noon
		s, err := Load(bytes.NewReader(written), options)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range limits {
			passes, began := false, noon
			most := time.Minute + l.Spec().Per/6*time.Duration(min(1, l.Spec().Blocks)) // its oldest block leaves gradually
			for now = began; now <= began.Add(most) && !passes; now = now.Add(time.Second) {
				d := s.Take(stint.Key(rune('b'+i)), l, cost)
				if passes = d.Allowed && d.Remaining+int64(cost) > 0; passes && now == began {
					t.Errorf("%+v: what was used is forgotten", l.Spec())
				}
			}
			if !passes {
				t.Errorf("%+v, cost %d: denied for longer than %v", l.Spec(), cost, most)
			}
		}
	}
}

// With a smaller budget the keys over their limit stay.
func TestLoadKeepsToTheBudget(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, test := range []struct {
		spec stint.Spec
		keys int // about twice as many as fit
	}{{specs[0], 120_000}, {specs[5], 12_000}} {
		options := Options{Clock: func() stint.Instant { return noon }}
		s := New(options)
		l := limit(t, test.spec)
		for k := range test.keys {
			s.Take(stint.Key(fmt.Sprint("idle", k)), l, 1)
			if k%100 == 0 {
				s.Take(stint.Key(fmt.Sprint("over", k)), l, 100)
			}
		}
		written := snapshot(t, s)
		options.Budget = 1 << 20
		s, err := Load(bytes.NewReader(written), options)
		if err != nil {
			t.Fatal(err)
		}
		stats := s.Stats()
		if stats.Bytes > stats.Budget+1<<18 || stats.EvictedIdle == 0 || stats.EvictedOver != 0 {
			t.Errorf("%v: %+v", test.spec.Algorithm, stats)
		}
		for k := 0; k < test.keys; k += 100 {
			if s.Take(stint.Key(fmt.Sprint("over", k)), l, 1).Allowed {
				t.Fatalf("%v: a key over its limit was forgotten", test.spec.Algorithm)
			}
		}
	}
}

// small returns a snapshot of a few keys of each kind, short enough to damage every byte.
func small(t testing.TB) []byte {
	t.Helper()
	now := noon
	s := New(Options{Clock: func() stint.Instant { return now }})
	limits, _ := kept(t)
	fill(s, limits, 2*len(limits), &now)
	return snapshot(t, s)
}

// Load refuses a snapshot in which any byte is changed, missing or added.
func TestLoadRefusesDamage(t *testing.T) {
	testkit.OneGoroutine(t)
	written := small(t)
	if _, err := Load(bytes.NewReader(written), Options{}); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, i int, b []byte) {
		t.Helper()
		s, err := Load(bytes.NewReader(b), Options{})
		if s != nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatalf("%s %d: error %v", what, i, err)
		}
	}
	for i := range written {
		for _, flip := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(written)
			b[i] ^= flip
			refused("byte changed", i, b)
		}
		refused("cut after", i, written[:i])
	}
	refused("byte added at", len(written), append(bytes.Clone(written), 0))

	newer := bytes.Clone(written)
	newer[len(snapshotMagic)] = snapshotVersion + 1
	if _, err := Load(bytes.NewReader(newer), Options{}); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer version: error %v", err)
	}
}

// Load refuses complete blocks that are missing, repeated or in another order.
func TestLoadRefusesOtherBlocks(t *testing.T) {
	now := noon
	s := New(Options{Clock: func() stint.Instant { return now }})
	l := limit(t, specs[0])
	for i := range 20_000 {
		s.Take(stint.Key(fmt.Sprint(i)), l, 1)
	}
	blocks := split(snapshot(t, s))
	if len(blocks) < 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for name, order := range map[string][]int{
		"left out": {0, 1, 3, 4, 5}, "repeated": {0, 1, 2, 2, 3, 4, 5}, "swapped": {0, 1, 3, 2, 4, 5}, "the last left out": {0, 1, 2, 3},
	} {
		var b []byte
		for _, i := range order {
			b = append(b, blocks[min(i, len(blocks)-1)]...)
		}
		if _, err := Load(bytes.NewReader(b), Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// split splits a snapshot into its head and its blocks.
func split(b []byte) [][]byte {
	parts := [][]byte{b[:headSize]}
	for b = b[headSize:]; len(b) > 0; {
		n := 8 + int(binary.LittleEndian.Uint64(b)) + sha256.Size
		parts = append(parts, b[:n])
		b = b[n:]
	}
	return parts
}

// sealed returns a snapshot with this content after its first block, with right checksums.
func sealed(content []byte) []byte {
	var b bytes.Buffer
	e := new(encoder)
	e.head(&b, &Store{seed: [4]uint64{1, 2, 3, 4}})
	e.block = append(e.block, content...)
	e.flush()
	return b.Bytes()
}

// FuzzLoad loads any bytes, as they are and with right checksums. Neither panics; only the second
// can be accepted, and then the store can be used.
func FuzzLoad(f *testing.F) {
	for _, block := range split(small(f))[2:] {
		f.Add(block[8 : len(block)-sha256.Size])
	}
	f.Add([]byte{recordEnd, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := Load(bytes.NewReader(b), Options{Budget: 1}); err == nil {
			t.Fatal("accepted without a checksum")
		}
		s, err := Load(bytes.NewReader(sealed(b)), Options{Budget: 1, Clock: func() stint.Instant { return noon }})
		if err != nil {
			if s != nil || !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v", err)
			}
			return
		}
		l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second})
		for i := range 20 {
			s.Take(stint.Key(fmt.Sprint(i)), l, 1)
		}
		s.Sweep()
		if err := s.WriteSnapshot(io.Discard); err != nil || s.Stats().Keys < 1 {
			t.Fatalf("%v, %+v", err, s.Stats())
		}
	})
}

// brokenReader fails like a broken disk.
type brokenReader struct{ r io.Reader }

var errDisk = errors.New("the disk is gone")

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errDisk
	}
	return n, err
}

// brokenWriter accepts that many bytes and then fails.
type brokenWriter int

func (b *brokenWriter) Write(p []byte) (int, error) {
	if *b -= brokenWriter(len(p)); *b < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

// The error of a disk is not ErrDamaged: the file may be complete.
func TestSnapshotReportsTheDisk(t *testing.T) {
	written := small(t)
	for i := 0; i <= len(written); i += 7 {
		if _, err := Load(brokenReader{bytes.NewReader(written[:i])}, Options{}); !errors.Is(err, errDisk) || errors.Is(err, ErrDamaged) {
			t.Fatalf("after %d bytes: error %v", i, err)
		}
	}
	s, err := Load(bytes.NewReader(written), Options{Clock: func() stint.Instant { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	full := brokenWriter(len(written) - 100)
	if err := s.WriteSnapshot(&full); !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
}

// A snapshot contains everything that was decided before it began, while other goroutines take,
// hold several keys at once and make tables grow.
func TestSnapshotUnderLoad(t *testing.T) {
	options := Options{Clock: func() stint.Instant { return noon }}
	s := New(options)
	var limits []*stint.Limit
	for _, spec := range specs {
		spec.Requests, spec.Per = 1_000_000, 10*time.Hour
		if spec.Burst > 0 {
			spec.Burst = 999_999
		}
		limits = append(limits, limit(t, spec))
	}
	const workers = 2
	var passed [workers]atomic.Int64 // how often each worker has taken one unit of each of its keys
	stop := make(chan struct{})
	var wg sync.WaitGroup
	key := func(g, i int) stint.Key { return stint.Key(fmt.Sprint("worker", g, "key", i)) }
	for g := range workers {
		wg.Go(func() {
			var call stint.Call
			for i, l := range limits {
				call.Takes = append(call.Takes, stint.Take{Key: key(g, i), Limit: l, Cost: 1})
			}
			for n := range 900_000 { // of 999,999, however slow the snapshots are
				runtime.Gosched() // the snapshots need the processor if there is only one
				select {
				case <-stop:
					return
				default:
				}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Error(err)
					return
				}
				if d, _ := stint.Combine(call.Results); !d.Allowed {
					t.Errorf("call %d was denied: %+v", n, d)
					return
				}
				passed[g].Add(1)
				s.Take(stint.Key(fmt.Sprint("new", g, n%1000)), limits[n%len(limits)], 1)
			}
		})
	}
	for range 5 {
		var before, after [workers]int64
		for g := range before {
			before[g] = passed[g].Load()
		}
		written := snapshot(t, s)
		for g := range after {
			after[g] = passed[g].Load() + 1 // one more may be decided and not yet counted
		}
		loaded, err := Load(bytes.NewReader(written), options)
		if err != nil {
			t.Fatal(err)
		}
		for g := range workers {
			for i, l := range limits {
				d := loaded.Take(key(g, i), l, 0)
				if used := d.Limit - d.Remaining; used < before[g] || used > after[g] {
					t.Fatalf("worker %d, %+v: %d units in the snapshot, %d passed before it and %d by its end", g, l.Spec(), used, before[g], after[g])
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

// Logs grow and are pruned while their copies are written: each snapshot is consistent.
func TestSnapshotOfBusyLogs(t *testing.T) {
	var clock atomic.Int64
	clock.Store(int64(noon))
	options := Options{Clock: func() stint.Instant { return stint.Instant(clock.Add(100)) }}
	s := New(options)
	l := limit(t, stint.Spec{Algorithm: stint.SlidingLog, Requests: 2000, Per: 20 * time.Millisecond})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					s.Take(stint.Key(fmt.Sprint("busy", (n+g)%3)), l, 1)
					runtime.Gosched() // as above
				}
			}
		})
	}
	for range 200 {
		if _, err := Load(bytes.NewReader(snapshot(t, s)), options); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
}
