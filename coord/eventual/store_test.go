package eventual_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/coord/eventual"
	"stint/store/memory"
)

var (
	// thousand passes 1,000 and hardly refills while a test runs.
	thousand = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer})
	// fast is 10,000 a second, 1,000 at once.
	fast = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 1000})
	// window is 1,000 in each second.
	window = stint.MustLimit(stint.Spec{Requests: 1000, Per: time.Second, CarryDebt: true})
)

// fleet is several nodes around one store.
type fleet struct {
	nodes []*eventual.Store
	store *shelf
	stop  func() // the nodes
}

// shelf is a store that counts what it is asked, and can fail: before it decides, or after.
type shelf struct {
	stint.Store
	calls, takes atomic.Int64
	fail, lose   atomic.Pointer[error]
	seen         func(*stint.Call)
}

// Decide is part of stint.Store.
func (s *shelf) Decide(ctx context.Context, call *stint.Call) error {
	s.calls.Add(1)
	s.takes.Add(int64(len(call.Takes)))
	if s.seen != nil {
		s.seen(call)
	}
	if err := s.fail.Load(); err != nil {
		return *err
	}
	err := s.Store.Decide(ctx, call)
	if lost := s.lose.Load(); lost != nil {
		return *lost
	}
	return err
}

// start runs so many nodes until the test ends.
func start(t testing.TB, n int, o eventual.Options) *fleet {
	t.Helper()
	return startOn(t, memory.New(memory.Options{}), n, o)
}

// startOn runs them on a store.
func startOn(t testing.TB, store stint.Store, n int, o eventual.Options) *fleet {
	t.Helper()
	f := &fleet{store: &shelf{Store: store}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		s := eventual.New(f.store, o)
		f.nodes = append(f.nodes, s)
		running.Go(func() { s.Run(ctx) })
	}
	f.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(f.stop)
	return f
}

func take(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Coordination: stint.Eventual}
}

// decide asks a node.
func (f *fleet) decide(t testing.TB, node int, takes ...stint.Take) []stint.Decision {
	t.Helper()
	call := stint.Call{Takes: takes}
	if err := f.nodes[node].Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results
}

// stored returns what the store says of a key.
func (f *fleet) stored(t testing.TB, key stint.Key, limit *stint.Limit) stint.Decision {
	t.Helper()
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit}}}
	if err := f.store.Store.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results[0]
}

// pass lets time pass, in a bubble.
func pass(d time.Duration) { time.Sleep(d) } // by the clock of a bubble

// One node decides like the store itself, and tells it all.
func TestAlone(t *testing.T) {
	for _, limit := range []*stint.Limit{fast, window} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, 1, eventual.Options{})
				own := memory.New(memory.Options{})
				for i := range 5000 {
					pass(time.Duration(i%7) * 20 * time.Microsecond)
					cost := uint32(i % 5)
					got := f.decide(t, 0, take("a", limit, cost))[0]
					if want := own.Take("a", limit, cost); got != want {
						t.Fatalf("take %d: %+v, want %+v", i, got, want)
					}
				}
				if n := f.store.calls.Load(); n > 20 {
					t.Errorf("%d calls for 5000 decisions", n)
				}
				pass(200 * time.Millisecond)
				if got, want := f.stored(t, "a", limit), own.Take("a", limit, 0); got != want {
					t.Errorf("the store has %+v, want %+v", got, want)
				}
			})
		})
	}
}

// What nodes spend too much they owe: it happens once.
func TestDebt(t *testing.T) {
	const nodes, interval = 8, 100 * time.Millisecond
	for _, test := range []struct {
		limit *stint.Limit
		most  int64 // in one burst
	}{{fast, 1000 + 1000}, {window, 1000}} {
		t.Run(test.limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nodes, eventual.Options{Interval: interval})
				for node := range nodes { // they know the key
					f.decide(t, node, take("a", test.limit, 0))
				}
				var passed int64
				began := time.Now()
				for time.Since(began) < 10*time.Second { // each asks for 4,000 a second
					pass(time.Millisecond)
					for node := range nodes {
						if f.decide(t, node, take("a", test.limit, 4))[0].Allowed {
							passed += 4
						}
					}
				}
				rate := float64(test.limit.Spec().Requests)
				ideal := int64(rate*10) + test.limit.Most()
				extra := passed - ideal
				if bound := (nodes - 1) * test.most; extra > bound {
					t.Errorf("%d passed, %d more than the limit, above %d", passed, extra, bound)
				}
				if passed < ideal*9/10 {
					t.Errorf("%d passed of %d", passed, ideal)
				}
				t.Logf("%d passed, %d of the limit", passed, ideal)
			})
		})
	}
}

// A push whose answer was lost is told again, and charged once.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.decide(t, 0, take("a", thousand, 1))
		f.decide(t, 0, take("a", thousand, 9))
		lost := errors.New("lost")
		f.store.lose.Store(&lost)
		pass(250 * time.Millisecond)
		f.decide(t, 0, take("a", thousand, 5))
		if d := f.stored(t, "a", thousand); d.Remaining != 990 {
			t.Errorf("%d are left while answers are lost, want 990", d.Remaining)
		}
		f.store.lose.Store(nil)
		pass(250 * time.Millisecond)
		if d := f.stored(t, "a", thousand); d.Remaining != 985 {
			t.Errorf("%d are left, want 985", d.Remaining)
		}
		if n := f.nodes[0].Stats(); n.Repeated == 0 || n.Unsure != 0 {
			t.Errorf("%+v", n)
		}
	})
}
