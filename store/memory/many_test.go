package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// budgets are the smallest, two others, the default, and one that no test can use up.
var budgets = []int64{1, 3 << 20, 16 << 20, 0, 16 << 30}

// newKeys returns a call of n unused keys.
func newKeys(name string, n int, l *stint.Limit) *stint.Call {
	c := &stint.Call{Takes: make([]stint.Take, n)}
	for i := range c.Takes {
		c.Takes[i] = stint.Take{Key: stint.Key(fmt.Sprint(name, i)), Limit: l, Cost: 1}
	}
	return c
}

// passes decides a call, which must end well before the test does.
func passes(t *testing.T, s *Store, c *stint.Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Decide(ctx, c); err != nil {
		t.Fatalf("a call of %d new keys: %v after a minute", len(c.Takes), err)
	}
	for i, d := range c.Results {
		if !d.Allowed || d.Remaining != d.Limit-1 {
			t.Fatalf("take %d of %d new keys: %+v", i, len(c.Takes), d)
		}
	}
}

// TestManyNewKeys: stores of every budget decide one call of many new keys, and charge all of its
// keys.
func TestManyNewKeys(t *testing.T) {
	sizes := []int{1, 2, 3, 5, 6, 7, 10, 50, 200, 383, 384, 385, 700, 999, 1000}
	if !testing.Short() {
		sizes = sizes[:0]
		for n := 1; n <= 1000; n++ {
			sizes = append(sizes, n)
		}
	}
	l := limit(t, specs[0])
	for _, budget := range budgets {
		for _, n := range sizes {
			if budget > 1<<30 && n < 999 {
				continue // it takes long to make
			}
			s := New(Options{Budget: budget})
			c := newKeys("k", n, l)
			passes(t, s, c)
			for i := range c.Takes {
				if d := s.Take(c.Takes[i].Key, l, 0); d.Remaining != 99 {
					t.Fatalf("budget %d, key %d of %d: %d remain after one unit", budget, i, n, d.Remaining)
				}
			}
		}
	}
}

// TestManyNewKeysAtEveryFill: stores decide calls of many new keys whatever fills their shards:
// states, the whole budget, or claims that were never written.
func TestManyNewKeysAtEveryFill(t *testing.T) {
	testkit.OneGoroutine(t)
	l, full := limit(t, specs[0]), limit(t, specs[0])
	s := New(Options{Budget: 1})
	s.Take("spent", full, 100)
	steps := 130
	if testing.Short() {
		steps = 60
	}
	for step := range steps {
		for i := range 613 { // 64 shards of 870 keys when they are full
			s.Take(stint.Key(fmt.Sprint("one", step, "/", i)), l, 1)
		}
		denied := newKeys(fmt.Sprint("denied", step, "/"), 333, l)
		denied.Takes = append(denied.Takes, stint.Take{Key: "spent", Limit: full, Cost: 1})
		if err := s.Decide(t.Context(), denied); err != nil {
			t.Fatal(err)
		}
		if d, _ := stint.Combine(denied.Results); d.Allowed {
			t.Fatalf("step %d: a call with a key that is used up passed", step)
		}
		passes(t, s, newKeys(fmt.Sprint("many", step, "/"), 1+step*31%1000, l))
	}
	if stats := s.Stats(); stats.EvictedIdle == 0 || stats.EvictedOver != 0 || stats.Bytes > stats.Budget+1<<17 {
		t.Errorf("%+v: want a full store that evicted idle keys only, within its budget", stats)
	}
}

// TestManyNewKeysOfUnevenShards: a call has more new keys in each shard than the budget has left,
// since other keys use it up.
func TestManyNewKeysOfUnevenShards(t *testing.T) {
	s := New(Options{Budget: 1})
	log := limit(t, stint.Spec{Algorithm: stint.SlidingLog, Requests: 100, Per: time.Hour})
	for i := range 8000 {
		s.Take(stint.Key(fmt.Sprint("log", i)), log, 1)
	}
	if stats := s.Stats(); stats.Bytes < stats.Budget*9/10 {
		t.Fatalf("%+v: the budget is not used up", stats)
	}
	l := limit(t, specs[0])
	for i := range 20 {
		passes(t, s, newKeys(fmt.Sprint("many", i, "/"), 1000, l))
	}
}

// TestManyNewKeysAtOnce: callers of many new keys, some of them the same, do not block each other
// while tables are replaced.
func TestManyNewKeysAtOnce(t *testing.T) {
	const rounds = 3
	l := limit(t, specs[0])
	for _, budget := range []int64{1, 0} {
		s := New(Options{Budget: budget})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range rounds {
					c := newKeys(fmt.Sprint("many", g/2, "/", i, "/"), 1000, l)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if err := s.Decide(ctx, c); err != nil {
						t.Errorf("caller %d: %v", g, err)
					}
					cancel()
					s.Sweep()
				}
			})
		}
		wg.Wait()
		for g := range 4 {
			for i := range rounds {
				c := newKeys(fmt.Sprint("many", g, "/", i, "/"), 1000, l)
				for j := range c.Takes {
					if d := s.Take(c.Takes[j].Key, l, 0); d.Remaining != 98 {
						t.Fatalf("budget %d: %d units remain of key %d, want 98", budget, d.Remaining, j)
					}
				}
			}
		}
	}
}

// TestEndedCallerDoesNotTryAgain: a call whose tries fail because of others ends with its context,
// and charges nothing.
func TestEndedCallerDoesNotTryAgain(t *testing.T) {
	s := New(Options{})
	l := limit(t, specs[0])
	log := limit(t, specs[5])
	c := &stint.Call{Takes: []stint.Take{{Key: "a", Limit: l, Cost: 1}, {Key: "b", Limit: log, Cost: 1}}}
	passes(t, s, c)
	// A slot of a table that is replaced meanwhile: the call must try again.
	sh := s.shard(s.fingerprint(l.Algorithm(), "a"))
	sl, _ := sh.table.Load().find(s.fingerprint(l.Algorithm(), "a"))
	word := sl.word.Swap(frozen)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Decide(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want %v", err, context.Canceled)
	}
	sl.word.Store(word)
	for _, k := range []stint.Take{{Key: "a", Limit: l}, {Key: "b", Limit: log}} {
		if d := s.Take(k.Key, k.Limit, 0); d.Remaining != 99 {
			t.Errorf("key %s: %d remain, want 99", k.Key, d.Remaining)
		}
	}
}
