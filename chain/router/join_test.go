package router_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/chain/router"
	"stint/internal/testkit"
	"stint/store/memory"
)

var five = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: stint.MaxPer})

// fake is a store that counts its calls, and can fail.
type fake struct {
	stint.Store
	calls, takes int
	fail         func(*stint.Call) error
	degraded     bool
}

func newShelf() *fake { return &fake{Store: memory.New(memory.Options{})} }

// Decide implements stint.Store.
func (s *fake) Decide(ctx context.Context, call *stint.Call) error {
	s.calls++
	s.takes += len(call.Takes)
	if s.fail != nil {
		if err := s.fail(call); err != nil {
			return err
		}
	}
	err := s.Store.Decide(ctx, call)
	for i := range call.Results {
		call.Results[i].Degraded = s.degraded
	}
	return err
}

// three are the stores of a router.
type three struct {
	asks, eventual, gossip *fake
	joined                 *router.Store
}

func newThree() *three {
	s := &three{asks: newShelf(), eventual: newShelf(), gossip: newShelf()}
	s.joined = router.New(router.Stores{Asks: s.asks, Eventual: s.eventual, Gossip: s.gossip})
	return s
}

func (s *three) all() []*fake { return []*fake{s.asks, s.eventual, s.gossip} }

// left returns how many units of a key each store has left.
func (s *three) left(t *testing.T, key stint.Key) (left [3]int64) {
	t.Helper()
	for i, one := range s.all() {
		call := stint.Call{Takes: []stint.Take{{Key: key, Limit: five}}}
		if err := one.Store.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
		left[i] = call.Results[0].Remaining
	}
	return left
}

func take(mode stint.Coordination, cost uint32) stint.Take {
	return stint.Take{Key: "a", Limit: five, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: mode}}}
}

func apart(t stint.Take) stint.Take {
	t.Independent = true
	return t
}

// Of a call for several stores everything is charged or nothing, whichever store denies.
func TestAllOrNone(t *testing.T) {
	for _, test := range []struct {
		name    string
		takes   []stint.Take
		allowed []bool
		left    [3]int64 // in asks, eventual, gossip
	}{
		{"all pass", []stint.Take{take(stint.Strict, 1), take(stint.Eventual, 2), take(stint.Gossip, 3)}, []bool{true, true, true}, [3]int64{4, 3, 2}},
		{"the store denies", []stint.Take{take(stint.Eventual, 1), take(stint.Leased, 6), take(stint.Gossip, 1)}, []bool{true, false, true}, [3]int64{5, 5, 5}},
		{"a node denies", []stint.Take{take(stint.Strict, 1), take(stint.Eventual, 6), take(stint.Gossip, 1)}, []bool{true, false, true}, [3]int64{5, 5, 5}},
		{"the first denies", []stint.Take{take(stint.Strict, 1), take(stint.Eventual, 1), take(stint.Gossip, 6)}, []bool{true, true, false}, [3]int64{5, 5, 5}},
		{"two deny", []stint.Take{take(stint.Strict, 6), take(stint.Gossip, 6)}, []bool{false, false}, [3]int64{5, 5, 5}},
		{"apart denies nobody", []stint.Take{take(stint.Strict, 1), apart(take(stint.Eventual, 6)), take(stint.Gossip, 1)}, []bool{true, false, true}, [3]int64{4, 5, 4}},
		{"apart is charged all the same", []stint.Take{take(stint.Strict, 6), apart(take(stint.Eventual, 2)), take(stint.Gossip, 1)}, []bool{false, true, true}, [3]int64{5, 3, 5}},
		{"looks", []stint.Take{take(stint.Strict, 0), take(stint.Eventual, 0)}, []bool{true, true}, [3]int64{5, 5, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newThree()
			call := stint.Call{Takes: test.takes}
			if err := s.joined.Decide(context.Background(), &call); err != nil {
				t.Fatal(err)
			}
			for i := range test.takes {
				if d := call.Results[i]; d.Allowed != test.allowed[i] || d.Limit != 5 {
					t.Errorf("take %d: %+v", i, d)
				}
			}
			if left := s.left(t, "a"); left != test.left {
				t.Errorf("%d are left, want %d", left, test.left)
			}
		})
	}
}

// Sources are decided with the take that borrows from them, by Asks.
func TestBorrows(t *testing.T) {
	s := newThree()
	own := stint.Take{Key: "own", Limit: stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour}), Cost: 2, Borrows: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}
	pool := take(stint.Gossip, 2)
	call := stint.Call{Takes: []stint.Take{own, pool, {Key: "b", Limit: five, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}}}
	if err := s.joined.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	if d := call.Results[0]; !d.Allowed || !d.Over {
		t.Errorf("%+v", d)
	}
	if left := s.left(t, "a"); left != [3]int64{3, 5, 5} {
		t.Errorf("%d are left of the pool", left)
	}
	if left := s.left(t, "b"); left != [3]int64{5, 5, 4} {
		t.Errorf("%d are left of the other", left)
	}
}

// The error of one store is the error of the call, and nothing stays charged, or the error says so.
func TestErrors(t *testing.T) {
	gone := errors.New("gone")
	asked := func(op stint.Op) func(*stint.Call) error {
		return func(c *stint.Call) error {
			if c.Takes[0].Op == op {
				return gone
			}
			return nil
		}
	}
	both := func(err error, wrapped ...error) bool {
		for _, w := range wrapped {
			if !errors.Is(err, w) {
				return false
			}
		}
		return true
	}
	for _, test := range []struct {
		name    string
		fail    func(*three)
		takes   []stint.Take
		unknown bool
		left    [3]int64
	}{
		{"the last", func(s *three) { s.asks.fail = asked(stint.Ask) }, []stint.Take{take(stint.Strict, 1), take(stint.Eventual, 2), apart(take(stint.Gossip, 2))}, false, [3]int64{5, 5, 5}},
		{"the first", func(s *three) { s.gossip.fail = asked(stint.Ask) }, []stint.Take{take(stint.Strict, 1), take(stint.Gossip, 2)}, false, [3]int64{5, 5, 5}},
		{"and so does giving back", func(s *three) { s.asks.fail, s.gossip.fail = asked(stint.Ask), asked(stint.Refund) }, []stint.Take{take(stint.Strict, 1), take(stint.Gossip, 2)}, true, [3]int64{5, 5, 3}},
		{"after what lasts", func(s *three) { s.asks.fail = asked(stint.Ask) }, []stint.Take{take(stint.Strict, 1), {Key: "a", Limit: five, Cost: 1, Op: stint.Force, Independent: true, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}}, true, [3]int64{5, 5, 4}},
		{"what comes at the end", func(s *three) { s.gossip.fail = asked(stint.Force) }, []stint.Take{take(stint.Strict, 1), {Key: "b", Limit: five, Cost: 1, Op: stint.Force, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}}, true, [3]int64{4, 5, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newThree()
			test.fail(s)
			call := stint.Call{Takes: test.takes}
			err := s.joined.Decide(context.Background(), &call)
			if !both(err, gone) || errors.Is(err, stint.ErrUnknown) != test.unknown {
				t.Errorf("%v", err)
			}
			if left := s.left(t, "a"); left != test.left {
				t.Errorf("%d are left, want %d", left, test.left)
			}
		})
	}
}

// What was given back because a call was denied is not given back again when a later store fails.
func TestFailsAfterDenial(t *testing.T) {
	for _, test := range []struct {
		before stint.Take
		takes  []stint.Take
		left   [3]int64
	}{
		{
			take(stint.Gossip, 3),
			[]stint.Take{take(stint.Gossip, 2), take(stint.Eventual, 6), apart(take(stint.Eventual, 1)), take(stint.Strict, 1)},
			[3]int64{5, 5, 2},
		},
		// The first denies, and the second charges nothing.
		{take(stint.Eventual, 3), []stint.Take{take(stint.Gossip, 6), take(stint.Eventual, 2), take(stint.Strict, 1)}, [3]int64{5, 2, 5}},
	} {
		s := newThree()
		if err := s.joined.Decide(context.Background(), &stint.Call{Takes: []stint.Take{test.before}}); err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		s.asks.fail = func(*stint.Call) error { return gone }
		if err := s.joined.Decide(context.Background(), &stint.Call{Takes: test.takes}); !errors.Is(err, gone) || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if left := s.left(t, "a"); left != test.left {
			t.Errorf("%d are left, want as many as before, %d", left, test.left)
		}
	}
}

// Takes of one leaky_bucket that are decided one after the other are given back in the other order.
func TestQueueGivenBack(t *testing.T) {
	queue := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Hour, Burst: 4})
	queued := func(key stint.Key, cost uint32) stint.Take {
		return stint.Take{Key: key, Limit: queue, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}
	}
	s := newThree()
	s.asks.fail = func(*stint.Call) error { return errors.New("gone") }
	call := stint.Call{Takes: []stint.Take{
		queued("a", 1), queued("a", 1), apart(queued("a", 2)),
		apart(queued("b", 2)), apart(queued("b", 1)), take(stint.Strict, 1),
	}}
	if err := s.joined.Decide(t.Context(), &call); err == nil || errors.Is(err, stint.ErrUnknown) {
		t.Errorf("%v", err)
	}
	for _, key := range []stint.Key{"a", "b"} {
		peek := stint.Call{Takes: []stint.Take{{Key: key, Limit: queue}}}
		if err := s.gossip.Store.Decide(t.Context(), &peek); err != nil || peek.Results[0].Remaining != 5 {
			t.Errorf("%s: %+v, %v", key, peek.Results, err)
		}
	}
}

// A charge of a limit that overdraws is given back if a later store fails, even if the call was
// already denied. Only what a denied take was charged cannot be given back.
func TestOverdrawnFails(t *testing.T) {
	overdrawn := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: stint.MaxPer, Overdraw: true})
	debits := func(mode stint.Coordination, cost uint32) stint.Take {
		t := take(mode, cost)
		t.Key, t.Limit = "o", overdrawn
		return t
	}
	for _, test := range []struct {
		name    string
		takes   []stint.Take
		unknown bool
		left    [3]int64
	}{
		{"all passed", []stint.Take{debits(stint.Gossip, 2), debits(stint.Eventual, 1), take(stint.Strict, 1)}, false, [3]int64{5, 5, 5}},
		{"another denies", []stint.Take{debits(stint.Gossip, 2), take(stint.Eventual, 6), take(stint.Strict, 1)}, false, [3]int64{5, 5, 5}},
		{"in the store that denies", []stint.Take{debits(stint.Gossip, 2), take(stint.Gossip, 6), take(stint.Strict, 1)}, true, [3]int64{5, 5, 3}},
	} {
		s := newThree()
		gone := errors.New("gone")
		s.asks.fail = func(*stint.Call) error { return gone }
		err := s.joined.Decide(t.Context(), &stint.Call{Takes: test.takes})
		if !errors.Is(err, gone) || errors.Is(err, stint.ErrUnknown) != test.unknown {
			t.Errorf("%s: %v", test.name, err)
		}
		for i, one := range s.all() {
			peek := stint.Call{Takes: []stint.Take{{Key: "o", Limit: overdrawn}}}
			if err := one.Store.Decide(t.Context(), &peek); err != nil || peek.Results[0].Remaining != test.left[i] {
				t.Errorf("%s: store %d: %+v, %v", test.name, i, peek.Results, err)
			}
		}
	}
}

// An invalid call fails before anything is charged, even if no store has all its takes.
func TestWrongCalls(t *testing.T) {
	s := newThree()
	other := take(stint.Eventual, 1)
	for name, test := range map[string]struct {
		takes []stint.Take
		want  error
	}{
		"no limit": {[]stint.Take{take(stint.Strict, 1), {Key: "a", Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}}, stint.ErrNoLimit},
		"mixed":    {[]stint.Take{take(stint.Strict, 1), other, {Key: "a", Limit: five, Op: stint.Reset, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}}, stint.ErrMixedLimits},
		"two":      {[]stint.Take{take(stint.Strict, 1), {Key: "a", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 6, Per: time.Hour}), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}}, stint.ErrMixedLimits},
	} {
		if err := s.joined.Decide(context.Background(), &stint.Call{Takes: test.takes}); !errors.Is(err, test.want) || !errors.Is(err, stint.ErrWrongCall) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := s.left(t, "a"); left != [3]int64{5, 5, 5} {
		t.Errorf("%d are left", left)
	}
}

// The decision of a failure policy counts like any other.
func TestDegraded(t *testing.T) {
	s := newThree()
	s.asks.degraded = true
	call := stint.Call{Takes: []stint.Take{take(stint.Strict, 6), take(stint.Gossip, 1)}}
	if err := s.joined.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	if d, _ := stint.Combine(call.Results); d.Allowed || !d.Degraded {
		t.Errorf("%+v", d)
	}
	if left := s.left(t, "a"); left != [3]int64{5, 5, 5} {
		t.Errorf("%d are left", left)
	}
}

// A call for one store is passed on unchanged. Takes of a nil store go to Asks.
func TestStraight(t *testing.T) {
	s := newThree()
	call := stint.Call{Takes: []stint.Take{take(stint.Eventual, 1), {Key: "b", Limit: five, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}}}
	ask := func() {
		if err := s.joined.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n != 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
	if s.asks.calls+s.gossip.calls != 0 {
		t.Error("others were asked")
	}
	alone := newShelf()
	plain := router.New(router.Stores{Asks: alone})
	call = stint.Call{Takes: []stint.Take{take(stint.Eventual, 1), {Key: "b", Limit: five, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip}}}, {Key: "c", Limit: five, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Strict}}}}}
	if err := plain.Decide(context.Background(), &call); err != nil || alone.calls != 1 || alone.takes != 3 {
		t.Errorf("%v, %d calls of %d takes", err, alone.calls, alone.takes)
	}
	if err := s.joined.Decide(context.Background(), new(stint.Call)); err != nil {
		t.Error(err)
	}
}

func ExampleNew() {
	shared := memory.New(memory.Options{}) // store of all nodes; Redis in a fleet
	own := memory.New(memory.Options{})    // decides in this process, such as fleet/eventual
	store := router.New(router.Stores{Asks: shared, Eventual: own})

	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour})
	for range 3 {
		call := stint.Call{Takes: []stint.Take{
			{Key: "user=42", Limit: limit, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}},
			{Key: "all", Limit: stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour}), Cost: 1},
		}}
		if err := store.Decide(context.Background(), &call); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(call.Results[0].Allowed, call.Results[1].Remaining)
	}
	// Output:
	// true 99
	// true 98
	// false 98
}

// Takes of at most some units are charged one number in all stores, and an earlier store gets back
// what it charged above it. That can be undone.
func TestAtMost(t *testing.T) {
	s := newThree()
	keys := [3]stint.Key{"strict", "eventual", "gossip"} // of the stores in all
	spend := func(store int, cost uint32) {
		t.Helper()
		if err := s.all()[store].Store.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: keys[store], Limit: five, Cost: cost}}}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (left [3]int64) {
		for i, key := range keys {
			left[i] = s.left(t, key)[i]
		}
		return left
	}
	call := stint.Call{Takes: []stint.Take{take(stint.Strict, 9), take(stint.Eventual, 9), take(stint.Gossip, 9), apart(take(stint.Gossip, 1))}}
	for i, key := range keys {
		call.Takes[i].Key, call.Takes[i].Op = key, stint.AskAtMost
	}
	spend(1, 1)
	spend(0, 3)
	if err := s.joined.Decide(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	for i, d := range call.Results {
		if !d.Allowed || d.Charged != []uint32{2, 2, 2, 0}[i] || d.Remaining != []int64{0, 2, 3, 4}[i] {
			t.Errorf("take %d: %+v", i, d)
		}
	}
	if left() != [3]int64{0, 2, 3} {
		t.Errorf("%d left", left())
	}
	back := stint.Call{}
	for i := range keys {
		t := call.Takes[i]
		t.Op, t.Cost, t.Undo = stint.Refund, t.Charged(&call.Results[i]), &call.Results[i]
		back.Takes = append(back.Takes, t)
	}
	if err := s.joined.Decide(t.Context(), &back); err != nil || left() != [3]int64{2, 4, 5} {
		t.Errorf("%v, %d left after the refund", err, left())
	}
	spend(0, 2)
	call.Takes = call.Takes[:3]
	if err := s.joined.Decide(t.Context(), &call); err != nil || left() != [3]int64{0, 4, 5} {
		t.Errorf("%v, %d left after a denied call", err, left())
	}
	for i, d := range call.Results {
		if d.Allowed != (i > 0) || d.Charged != 0 {
			t.Errorf("take %d of a denied call: %+v", i, d)
		}
	}
}
