package quota_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stint"
	"stint/fleet/quota"
	"stint/internal/testkit"
)

// window is a limit of 40 a day, in windows.
var window = stint.Spec{Algorithm: stint.FixedWindow, Requests: 40, Per: 24 * time.Hour}

// dividedWindow returns terms of two nodes, each with a share of 10 a day.
func dividedWindow() *stint.Terms {
	part := window
	part.Requests = 10
	return terms(stint.MustLimit(window), stint.MustLimit(part))
}

// saved are the files of a test.
type saved struct {
	*testing.T
	name string
}

func newSaved(t *testing.T) *saved { return &saved{t, filepath.Join(t.TempDir(), "shares")} }

func (s *saved) write(f *fixture) {
	s.Helper()
	testkit.Must(s, quota.WriteFile(s.name, []string{"a"}, []*quota.Store{f.Store}))
}

// restart returns a new process with the rules and the shares of another one. Its clock shows
// another time.
func (s *saved) restart(f *fixture, all ...*stint.Terms) *fixture {
	s.Helper()
	s.write(f)
	next := newFixture(s.T)
	next.now, next.away = began-stint.Instant(rand.Int64N(int64(began)/2)), true // some year from 1998 on
	next.change(all...)
	if _, err := quota.ReadFile(s.name, []string{"a"}, []*quota.Store{next.Store}); err != nil {
		s.Fatal(err)
	}
	if _, err := os.Lstat(s.name); !errors.Is(err, fs.ErrNotExist) {
		s.Fatalf("the file is there after it was read: %v", err)
	}
	return next
}

// Shares go on after a restart as if no time had passed between. A process that never restarts is
// the model.
func TestRestart(t *testing.T) {
	for name, terms := range map[string]func() *stint.Terms{"bucket": func() *stint.Terms { return divided(40) }, "window": dividedWindow} {
		t.Run(name, func(t *testing.T) {
			s, model := newSaved(t), newFixture(t)
			model.away = true
			one := terms()
			model.change(one)
			f := newFixture(t)
			f.away = true
			f.change(one)
			r := rand.New(rand.NewPCG(1, 2))
			passed := 0
			for i := range 20_000 {
				d := time.Duration(r.ExpFloat64() * float64(one.Own.Spec().Per) / 30)
				f.pass(d)
				model.pass(d)
				key, cost := stint.Key(fmt.Sprint(r.IntN(5))), uint32(1+r.IntN(3))
				got, want := f.take(one, key, cost), model.take(one, key, cost)
				if got.Allowed != want.Allowed || got.Own != want.Own {
					t.Fatalf("take %d: %+v, want %+v", i, got, want)
				}
				if got.Own {
					passed++
				}
				if r.IntN(50) == 0 {
					one = terms()
					model.change(one)
					f = s.restart(f, one)
				}
			}
			if passed < 1000 {
				t.Errorf("only %d passed", passed)
			}
		})
	}
}

// A file gives its shares only once, only to stores of the same names, and only to rules that divide
// their limits in the same way.
func TestRestartElse(t *testing.T) {
	one := dividedWindow()
	unspent := func(s *saved) *fixture {
		f := newFixture(t)
		f.away = true
		f.change(one)
		f.pass(25 * time.Hour) // its share is there
		f.take(one, "k", 3)
		s.write(f)
		return f
	}
	read := func(s *saved, terms *stint.Terms, names ...string) (int64, error) {
		f := newFixture(t)
		f.away = true
		f.change(terms)
		_, err := quota.ReadFile(s.name, names, []*quota.Store{f.Store})
		p, _ := f.Share(&stint.Take{Key: "k", Limit: terms.Limit, Handling: &stint.Handling{Terms: terms}})
		return p.Remaining, err
	}
	for name, c := range map[string]struct {
		change func(s *saved) (*stint.Terms, []string)
		want   int64
		err    error
	}{
		"same":        {func(*saved) (*stint.Terms, []string) { return dividedWindow(), []string{"a"} }, 7, nil},
		"other store": {func(*saved) (*stint.Terms, []string) { return dividedWindow(), []string{"b"} }, 0, nil},
		"other limit": {func(*saved) (*stint.Terms, []string) {
			part := window
			part.Requests = 8
			return terms(stint.MustLimit(window), stint.MustLimit(part)), []string{"a"}
		}, 0, nil},
		"other rule": {func(*saved) (*stint.Terms, []string) {
			other := dividedWindow()
			other.Rule = "other"
			return other, []string{"a"}
		}, 0, nil},
		"twice": {func(s *saved) (*stint.Terms, []string) {
			if got, err := read(s, one, "a"); got != 7 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			return dividedWindow(), []string{"a"}
		}, 0, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSaved(t)
			unspent(s)
			terms, names := c.change(s)
			if got, err := read(s, terms, names...); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d remain, %v; want %d, %v", got, err, c.want, c.err)
			}
		})
	}
}

// A file with other content is refused and stays, and all shares count as used up.
func TestRestartDamaged(t *testing.T) {
	s, one := newSaved(t), dividedWindow()
	f := newFixture(t)
	f.away = true
	f.change(one)
	f.pass(25 * time.Hour)
	for i := range 20 {
		f.take(one, stint.Key(fmt.Sprint(i)), 3)
	}
	s.write(f)
	whole, err := os.ReadFile(s.name)
	testkit.Must(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 500 {
		bad := bytes.Clone(whole)
		switch i % 3 {
		case 0:
			bad = bad[:r.IntN(len(bad))]
		case 1:
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		case 2:
			bad = append(bad, whole[r.IntN(len(whole)):]...)
		}
		testkit.Must(t, os.WriteFile(s.name, bad, 0o600))
		g := newFixture(t)
		g.away = true
		g.change(one)
		n, err := quota.ReadFile(s.name, []string{"a"}, []*quota.Store{g.Store})
		if bytes.Equal(bytes.TrimSpace(bad), bytes.TrimSpace(whole)) {
			continue // only the last line's end is missing
		}
		if !errors.Is(err, quota.ErrDamaged) || n != 0 || g.Keys() != 0 {
			t.Fatalf("%d shares, %v, of\n%s", n, err, bad)
		}
		if d := g.take(one, "fresh", 1); d.Allowed {
			t.Fatalf("passed: %+v", d)
		}
		if left, err := os.ReadFile(s.name); err != nil || !bytes.Equal(left, bad) {
			t.Fatalf("the file did not stay: %v", err)
		}
	}
}

// A process may end at any moment: no window lets pass more than the share, whether it ends with a
// file or without.
func TestRestartsNeverPassMore(t *testing.T) {
	s, one := newSaved(t), dividedWindow()
	capacity, length := one.Own.Capacity(), one.Own.Spec().Per
	f := newFixture(t)
	f.away = true
	f.change(one)
	r := rand.New(rand.NewPCG(5, 6))
	real, sum := time.Duration(0), int64(0)
	type use struct {
		at    time.Duration
		units int64
	}
	var uses []use
	for range 30_000 {
		d := time.Duration(r.ExpFloat64() * float64(length) / 100)
		real += d
		f.pass(d)
		if cost := uint32(1 + r.IntN(2)); f.take(one, "k", cost).Allowed {
			uses = append(uses, use{real, int64(cost)})
			sum += int64(cost)
		}
		for len(uses) > 0 && uses[0].at <= real-length {
			sum -= uses[0].units
			uses = uses[1:]
		}
		if sum > capacity {
			t.Fatalf("%d passed in a day, of %d", sum, capacity)
		}
		switch r.IntN(200) {
		case 0: // it ends in order
			real += time.Duration(r.Int64N(int64(length)))
			f = s.restart(f, one)
		case 1: // it is killed
			f := newFixture(t)
			f.away = true
			f.change(one)
			if _, err := quota.ReadFile(s.name, []string{"a"}, []*quota.Store{f.Store}); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	if len(uses) == 0 {
		t.Error("nothing passed in the end")
	}
}
