package memory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counts")
	options := Options{Clock: func() stint.Instant { return noon }}
	if s, err := LoadFile(name, options); s != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: error %v", err)
	}
	// The left over file of a crash in the middle of a save, or a file of somebody else.
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("untouched"), 0o644))
	testkit.Must(t, os.Symlink(secret, name+".tmp"))

	s, l := New(options), limit(t, specs[0])
	for _, used := range []uint32{60, 30} {
		s.Take("a", l, used)
		testkit.Must(t, s.SaveFile(name))
		loaded, err := LoadFile(name, options)
		testkit.Must(t, err)
		if got, want := loaded.Take("a", l, 0), s.Take("a", l, 0); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		info, err := os.Stat(name)
		testkit.Must(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
	}
	if b, err := os.ReadFile(secret); string(b) != "untouched" || err != nil {
		t.Errorf("a link was followed: %q, %v", b, err)
	}
	if _, err := os.Lstat(name + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary file is left: %v", err)
	}
}

// If the name is a link, its target is replaced, in the target's folder, and the link stays; also
// if the target does not exist yet, and in SetAside.
func TestFileThroughLink(t *testing.T) {
	near, far := t.TempDir(), t.TempDir()
	name, target := filepath.Join(near, "counts"), filepath.Join(far, "kept")
	testkit.Must(t, os.Symlink(target, name))
	options := Options{Clock: func() stint.Instant { return noon }}
	s, l := New(options), limit(t, specs[0])
	for _, used := range []uint32{60, 30} {
		s.Take("a", l, used)
		testkit.Must(t, s.SaveFile(name))
		loaded, err := LoadFile(target, options)
		testkit.Must(t, err)
		if got, want := loaded.Take("a", l, 0), s.Take("a", l, 0); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if aside, err := SetAside(name); aside != target+".damaged-1" || err != nil {
		t.Errorf("set aside as %s, %v", aside, err)
	}
	testkit.Must(t, s.SaveFile(name))
	if to, err := os.Readlink(name); to != target || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	for dir, want := range map[string]int{near: 1, far: 2} {
		if left, err := os.ReadDir(dir); len(left) != want || err != nil {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
}

// A save that fails leaves the previous file and no other.
func TestFileKeepsTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "counts")
	testkit.Must(t, os.Mkdir(name, 0o700)) // nothing can be renamed over a folder
	if err := New(Options{}).SaveFile(name); err == nil {
		t.Error("saved over a folder")
	}
	if err := New(Options{}).SaveFile(filepath.Join(dir, "none", "counts")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: error %v", err)
	}
	left, err := os.ReadDir(dir)
	testkit.Must(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSetAside(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counts")
	for n := 1; n <= 3; n++ {
		content := fmt.Sprint("damage ", n)
		testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
		if _, err := LoadFile(name, Options{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("error %v", err)
		}
		aside, err := SetAside(name)
		testkit.Must(t, err)
		if want := fmt.Sprint(name, ".damaged-", n); aside != want {
			t.Errorf("set aside as %s, want %s", aside, want)
		}
		if b, err := os.ReadFile(aside); string(b) != content || err != nil {
			t.Errorf("%s holds %q, %v", aside, b, err)
		}
	}
	if _, err := SetAside(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: error %v", err)
	}
}

// BenchmarkSnapshot saves and loads a million keys, and measures decisions meanwhile: hold-ms is
// the longest work under the lock of a shard, slowest-ms the slowest of the decisions that another
// goroutine made one after another during a save, and alone-ms the slowest while other work kept a
// processor as busy. The last two include whatever else the machine did.
func BenchmarkSnapshot(b *testing.B) {
	const keys = 1_000_000
	for _, spec := range []stint.Spec{specs[0], specs[5]} {
		b.Run(spec.Algorithm.String(), func(b *testing.B) {
			spec.Per = 24 * time.Hour
			l := limit(b, spec)
			s := New(Options{Budget: 512 << 20})
			for i := range keys {
				s.Take(stint.Key(fmt.Sprint("key", i)), l, uint32(i%100+1))
			}
			name := filepath.Join(b.TempDir(), "counts")
			var hold, slowest, alone, saved, loaded time.Duration
			for b.Loop() {
				slowest = max(slowest, slowestTake(s, l, func() {
					began := time.Now()
					testkit.Must(b, s.SaveFile(name))
					saved = max(saved, time.Since(began))
				}))
				alone = max(alone, slowestTake(s, l, func() {
					for began := time.Now(); time.Since(began) < saved; {
						_ = sha256.Sum256(make([]byte, blockSize))
					}
				}))
				hold = max(hold, longestHold(s))
				began := time.Now()
				_, err := LoadFile(name, Options{Budget: 512 << 20})
				testkit.Must(b, err)
				loaded = max(loaded, time.Since(began))
			}
			info, err := os.Stat(name)
			testkit.Must(b, err)
			report := func(d time.Duration, unit string) { b.ReportMetric(float64(d.Microseconds())/1000, unit) }
			report(saved, "save-ms")
			report(loaded, "load-ms")
			report(hold, "hold-ms")
			report(slowest, "slowest-ms")
			report(alone, "alone-ms")
			b.ReportMetric(float64(info.Size())/keys, "bytes/key")
		})
	}
}

// longestHold returns the time to copy the slowest shard: of each shard the fastest of five rounds,
// as in the others the processor may have been taken away.
func longestHold(s *Store) time.Duration {
	var c shardCopy
	quickest := make([]time.Duration, len(s.shards))
	for round := range 5 {
		for i := range s.shards {
			c.reserve(&s.shards[i])
			began := time.Now()
			c.copyShard(&s.shards[i])
			if took := time.Since(began); round == 0 || took < quickest[i] {
				quickest[i] = took
			}
		}
	}
	return slices.Max(quickest)
}

// slowestTake returns the time of the slowest take while f ran.
func slowestTake(s *Store, l *stint.Limit, f func()) (slowest time.Duration) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			key := stint.Key(fmt.Sprint("key", i%2_000_000)) // every other one is new
			began := time.Now()
			s.Take(key, l, 1)
			slowest = max(slowest, time.Since(began))
		}
	})
	f()
	close(stop)
	wg.Wait()
	return slowest
}
