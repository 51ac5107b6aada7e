package servers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stint"
	"stint/chain/servers"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	hour  = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Algorithm: stint.TokenBucket})
	debts = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Algorithm: stint.TokenBucket, Overdraw: true})
	pace  = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Algorithm: stint.SlidingLog, MinInterval: time.Minute})
)

// noon is the time of all calls.
var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// server is a store with a hook before each call.
type server struct {
	*memory.Store
	mu     sync.Mutex
	asked  int
	before func(n int, call *stint.Call) error // called with the number of the call, from 1
	ctx    context.Context                     //nolint:containedctx // context of the last call
}

func (s *server) Decide(ctx context.Context, call *stint.Call) error {
	s.mu.Lock()
	s.asked++
	n, before := s.asked, s.before
	s.ctx = ctx
	s.mu.Unlock()
	if before != nil {
		if err := before(n, call); err != nil {
			return err
		}
	}
	return s.Store.Decide(ctx, call)
}

// bench is a store on three servers, and a key on each.
type bench struct {
	*testing.T
	*servers.Store
	servers [3]*server
	keys    [3]stint.Key
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t}
	b.Store = over(t, func(i int) stint.Store {
		b.servers[i] = &server{Store: memory.New(memory.Options{Budget: 1 << 20})}
		return b.servers[i]
	})
	for n, found := 0, 0; found < len(b.keys); n++ {
		key := stint.Key("key" + strings.Repeat("x", n))
		if i := servers.Pick(names, key); b.keys[i] == "" {
			b.keys[i] = key
			found++
		}
	}
	return b
}

// ask takes these costs of the keys 0, 1, 2.
func (b *bench) ask(limit *stint.Limit, costs ...uint32) ([]stint.Decision, error) {
	call := stint.Call{At: noon}
	for i, cost := range costs {
		call.Takes = append(call.Takes, stint.Take{Key: b.keys[i], Limit: limit, Cost: cost})
	}
	err := b.Decide(b.Context(), &call)
	return call.Results, err
}

// left returns how many units of a key are left.
func left(t testing.TB, s stint.Store, key stint.Key) int64 {
	t.Helper()
	call := stint.Call{At: noon, Takes: []stint.Take{{Key: key, Limit: hour}}}
	if err := s.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results[0].Remaining
}

// leaves checks how many units of each key are left.
func (b *bench) leaves(want ...int64) {
	b.Helper()
	for i, n := range want {
		if got := left(b, b.servers[i].Store, b.keys[i]); got != n {
			b.Errorf("server %d has %d left, want %d", i, got, n)
		}
	}
}

// TestSteps: how many calls each server gets.
func TestSteps(t *testing.T) {
	for name, test := range map[string]struct {
		takes func(b *bench) []stint.Take
		want  [3]int
	}{
		"one server": {func(b *bench) []stint.Take {
			return []stint.Take{
				{Key: b.keys[1], Limit: hour, Cost: 1},
				{Key: "x", Handling: &stint.Handling{Place: b.keys[1]}, Limit: hour, Cost: 1, Independent: true},
				{Key: "any", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), Cost: 1},
			}
		}, [3]int{0, 1, 0}},
		"no limit": {func(*bench) []stint.Take {
			return []stint.Take{{Key: "any", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), Cost: 1}}
		}, [3]int{}},
		"look and charge": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1}, {Key: b.keys[1], Limit: hour, Cost: 1}, {Key: b.keys[2], Limit: hour}}
		}, [3]int{2, 2, 1}},
		"look and be denied": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1}, {Key: b.keys[1], Limit: hour, Cost: 11}, {Key: b.keys[2], Limit: pace, Cost: 1}}
		}, [3]int{1, 2, 1}},
		"peeks": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour}, {Key: b.keys[1], Limit: hour}}
		}, [3]int{1, 1, 0}},
		"each by itself": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1}, {Key: b.keys[1], Limit: hour, Cost: 11, Independent: true}}
		}, [3]int{1, 1, 0}},
		"changes": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1, Op: stint.Force}, {Key: b.keys[1], Limit: hour, Op: stint.Reset}}
		}, [3]int{1, 1, 0}},
		"a pool elsewhere": {func(b *bench) []stint.Take {
			return []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1, Borrows: 1}, {Key: b.keys[1], Limit: hour, Cost: 1}}
		}, [3]int{2, 2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			call := stint.Call{At: noon, Takes: test.takes(b)}
			if err := b.Decide(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
			for i, s := range b.servers {
				if s.asked != test.want[i] {
					t.Errorf("server %d was asked %d times, want %d", i, s.asked, test.want[i])
				}
			}
		})
	}
}

// TestTooLate: if others take the rest between peek and charge, what other servers charged is given
// back, except for limits that overdraw.
func TestTooLate(t *testing.T) {
	for _, limit := range []*stint.Limit{hour, debts} {
		b := newBench(t)
		b.servers[1].before = func(n int, _ *stint.Call) error {
			if n != 2 {
				return nil
			}
			quicker := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: limit, Cost: 8}}}
			return b.servers[1].Store.Decide(context.Background(), &quicker)
		}
		got, err := b.ask(limit, 4, 4, 4)
		if err != nil || !got[0].Allowed || got[1].Allowed || !got[2].Allowed || got[1].RetryAfter <= 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if limit == hour && (got[0].Remaining != 10 || got[2].Remaining != 10) || limit == debts && got[0].Remaining != 6 {
			t.Errorf("%+v", got)
		}
	}
}

// TestGrants: what one server charged to grants goes back to them if another one denies meanwhile, and each
// take of a key can be given back by itself.
func TestGrants(t *testing.T) {
	b := newBench(t)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	granted := func(cost uint32) stint.Take {
		grants := []limits.Grant{{ID: "g", Units: 5, Priority: limits.GrantPriority, Until: stint.MaxInstant}}
		return stint.Take{Key: b.keys[0], Limit: limit, Cost: cost, Handling: &stint.Handling{Meter: &limits.Meter{Grants: grants}}}
	}
	decide := func(at stint.Instant, takes ...stint.Take) []stint.Decision {
		t.Helper()
		call := stint.Call{At: at, Takes: takes}
		if err := b.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		return call.Results
	}
	b.servers[1].before = func(n int, _ *stint.Call) error {
		if n != 2 {
			return nil
		}
		quicker := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: hour, Cost: 8}}}
		return b.servers[1].Store.Decide(context.Background(), &quicker)
	}
	other := stint.Take{Key: b.keys[1], Limit: hour, Cost: 4}
	if d := decide(noon, granted(8), granted(6), other); d[0].Remaining != 15 || d[2].Allowed {
		t.Errorf("%+v", d)
	}
	later := noon.Add(time.Hour)
	if d := decide(later, granted(0)); d[0].Remaining != 15 {
		t.Errorf("%+v", d)
	}
	other.Cost = 1
	d := decide(later, granted(8), granted(6), other)
	if !d[1].Allowed || d[1].Remaining != 1 {
		t.Errorf("%+v", d)
	}
	back := granted(6)
	back.Op, back.Undo = stint.Refund, &d[1]
	if d := decide(later.Add(time.Hour), back); d[0].Remaining != 15 { // the grant got 4, and the limit's window is over
		t.Errorf("%+v", d)
	}
}

// TestLeanTooLate: a take whose source others use up meanwhile is denied, and nothing stays
// charged.
func TestLeanTooLate(t *testing.T) {
	b := newBench(t)
	if _, err := b.ask(hour, 10); err != nil {
		t.Fatal(err)
	}
	takes := []stint.Take{
		{Key: b.keys[0], Limit: hour, Cost: 1, Borrows: 2},
		{Key: b.keys[1], Limit: hour, Cost: 1},
		{Key: b.keys[2], Limit: hour, Cost: 1},
	}
	for _, step := range []struct {
		taken   uint32
		allowed bool
		left    []int64
	}{{9, true, []int64{0, 0, 9}}, {0, false, []int64{0, 0, 9}}} {
		b.servers[1].asked = 0
		b.servers[1].before = func(n int, _ *stint.Call) error {
			if n != 1 {
				return nil
			}
			quicker := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: hour, Cost: step.taken}}}
			return b.servers[1].Store.Decide(context.Background(), &quicker)
		}
		call := stint.Call{At: noon, Takes: takes}
		if err := b.Decide(t.Context(), &call); err != nil || call.Results[0].Allowed != step.allowed || call.Results[0].Over != step.allowed {
			t.Errorf("%+v, %v", call.Results, err)
		}
		b.leaves(step.left...)
	}
	reset := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: hour, Op: stint.Reset}}}
	b.servers[1].before = nil
	if err := b.Decide(t.Context(), &reset); err != nil {
		t.Fatal(err)
	}
	b.servers[1].asked = 0
	b.servers[1].before = func(n int, _ *stint.Call) error {
		if n != 2 {
			return nil
		}
		quicker := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: hour, Cost: 10}}}
		return b.servers[1].Store.Decide(context.Background(), &quicker)
	}
	call := stint.Call{At: noon, Takes: takes}
	err := b.Decide(t.Context(), &call)
	if d := call.Results[0]; err != nil || d.Allowed || d.Over || d.RetryAfter <= 0 {
		t.Errorf("%+v, %v", call.Results, err)
	}
	b.leaves(0, 0, 9)
}

// TestMeanwhile: a call that was denied by the peek and fits in the second step is decided again.
func TestMeanwhile(t *testing.T) {
	for _, back := range []int{1, 100} {
		b := newBench(t)
		if _, err := b.ask(hour, 0, 8); err != nil {
			t.Fatal(err)
		}
		b.servers[1].asked = 0
		b.servers[1].before = func(n int, call *stint.Call) error {
			if n > 3*back {
				return nil
			}
			op, cost := stint.Refund, uint32(8)
			if call.Takes[0].Op == stint.Ask && call.Takes[0].Cost == 0 && n > 1 && back > 1 {
				op = stint.Force // used up again
			} else if n == 1 {
				cost = 0
			}
			change := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[1], Limit: hour, Cost: cost, Op: op}}}
			return b.servers[1].Store.Decide(context.Background(), &change)
		}
		got, err := b.ask(hour, 4, 4)
		if err != nil || got[1].Allowed != (back == 1) || got[1].RetryAfter != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		b.leaves(map[int]int64{1: 6, 100: 10}[back])
	}
}

var errGone = errors.New("gone")

// TestErrors: if a server fails, what others charged is given back, and the error names the server.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		fails   error
		at      int // step of server 1 that fails
		forced  bool
		unknown bool
		left    []int64
	}{
		"at the look":       {errGone, 1, false, false, []int64{10, 10, 10}},
		"at the charge":     {errGone, 2, false, false, []int64{10, 10, 10}},
		"nobody knows":      {stint.ErrUnknown, 2, false, true, []int64{10, 10, 10}},
		"something is done": {errGone, 3, true, true, []int64{10, 10, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.servers[1].before = func(n int, _ *stint.Call) error {
				if n == test.at {
					return test.fails
				}
				return nil
			}
			call := stint.Call{At: noon, Takes: []stint.Take{
				{Key: b.keys[0], Limit: hour, Cost: 4}, {Key: b.keys[1], Limit: hour, Cost: 4}, {Key: b.keys[0], Limit: hour, Cost: 1},
			}}
			if test.forced {
				call.Takes = append(call.Takes,
					stint.Take{Key: b.keys[2], Limit: hour, Cost: 2, Op: stint.Force},
					stint.Take{Key: "x", Handling: &stint.Handling{Place: b.keys[1]}, Limit: hour, Cost: 2, Op: stint.Force})
			}
			err := b.Decide(t.Context(), &call)
			if !errors.Is(err, test.fails) || errors.Is(err, stint.ErrUnknown) != test.unknown || !strings.Contains(err.Error(), names[1]) {
				t.Error(err)
			}
			b.leaves(test.left...)
		})
	}
	t.Run("each by itself", func(t *testing.T) {
		b := newBench(t)
		b.servers[1].before = func(int, *stint.Call) error { return errGone }
		b.servers[2].before = b.servers[1].before
		take := stint.Take{Key: b.keys[0], Limit: hour, Cost: 2, Independent: true}
		pool := stint.Take{Key: "pool", Handling: &stint.Handling{Place: b.keys[0]}, Limit: hour, Cost: 12}
		call := stint.Call{At: noon, Takes: []stint.Take{
			take, take,
			{Key: b.keys[1], Limit: hour, Cost: 2, Independent: true},
			{Key: b.keys[2], Limit: hour, Cost: 2, Independent: true},
			{Key: "borrower", Handling: &stint.Handling{Place: b.keys[0]}, Limit: hour, Cost: 2, Borrows: 1},
			pool,
		}}
		err := b.Decide(t.Context(), &call)
		if !errors.Is(err, errGone) || errors.Is(err, stint.ErrUnknown) || !strings.Contains(err.Error(), names[1]) || !strings.Contains(err.Error(), names[2]) {
			t.Error(err)
		}
		b.leaves(10)
		if n := left(t, b.servers[0].Store, "borrower"); n != 10 {
			t.Errorf("%d left", n)
		}
		if n := left(t, b.servers[0].Store, "pool"); n != 10 {
			t.Errorf("%d left of the pool", n)
		}
	})
	t.Run("a source debited in part", func(t *testing.T) {
		b := newBench(t)
		b.servers[1].before = func(int, *stint.Call) error { return errGone }
		used := stint.Call{At: noon, Takes: []stint.Take{{Key: "pool", Handling: &stint.Handling{Place: b.keys[0]}, Limit: hour, Cost: 19, Op: stint.Force}}}
		if err := b.Decide(t.Context(), &used); err != nil {
			t.Fatal(err)
		}
		call := stint.Call{At: noon, Takes: []stint.Take{
			{Key: b.keys[0], Limit: hour, Cost: 2, Borrows: 1},
			{Key: "pool", Handling: &stint.Handling{Place: b.keys[0]}, Limit: hour, Cost: 2},
			{Key: b.keys[1], Limit: hour, Cost: 2, Independent: true},
		}}
		if err := b.Decide(t.Context(), &call); !errors.Is(err, errGone) || !errors.Is(err, stint.ErrUnknown) {
			t.Error(err)
		}
		b.leaves(10)
	})
	t.Run("not given back", func(t *testing.T) {
		b := newBench(t)
		b.servers[1].before = func(n int, _ *stint.Call) error { return map[bool]error{true: errGone}[n == 2] }
		b.servers[0].before = func(n int, _ *stint.Call) error { return map[bool]error{true: errGone}[n == 3] }
		if _, err := b.ask(hour, 4, 4); !errors.Is(err, stint.ErrUnknown) || !errors.Is(err, errGone) {
			t.Error(err)
		}
	})
}

// TestCallerGone: if a caller gives up, what its call charged is given back all the same, within
// bounded time.
func TestCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.servers[1].before = func(n int, _ *stint.Call) error {
			if n == 2 {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		memory := []byte(b.keys[0])
		call := stint.Call{At: noon, Takes: []stint.Take{{Key: stint.Key(memory), Limit: hour, Cost: 4}, {Key: b.keys[1], Limit: hour, Cost: 4}}}
		if err := b.Decide(ctx, &call); !errors.Is(err, context.Canceled) || !errors.Is(err, stint.ErrUnknown) {
			t.Error(err)
		}
		b.Close()
		b.leaves(10, 10)
		if deadline, ok := b.servers[0].ctx.Deadline(); !ok || time.Until(deadline) > time.Second {
			t.Error("what is given back may take for ever")
		}
	})
}

// TestNodes: two nodes that use keys on two servers at the same time pass exactly the smaller
// limit, and charge both keys for that and no more.
func TestNodes(t *testing.T) {
	b := newBench(t)
	nodes := []*servers.Store{b.Store, over(t, func(i int) stint.Store { return b.servers[i] })}
	most := func(n uint32) *stint.Limit { return stint.MustLimit(stint.Spec{Requests: n, Per: time.Hour}) }
	call := func() stint.Call {
		return stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[0], Limit: most(100), Cost: 1}, {Key: b.keys[1], Limit: most(150), Cost: 1}}}
	}
	var passed atomic.Int64
	ask := func(node *servers.Store, call *stint.Call) bool {
		if err := node.Decide(context.Background(), call); err != nil {
			t.Error(err)
			return false
		}
		d, _ := stint.Combine(call.Results)
		if d.Allowed {
			passed.Add(1)
		}
		return d.Allowed
	}
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			call := call()
			for range 20 {
				ask(nodes[i%2], &call)
			}
		})
	}
	callers.Wait()
	last := call()
	for ask(nodes[0], &last) {
	}
	if n := passed.Load(); n != 100 || last.Results[0].Remaining != 0 || last.Results[1].Remaining != 50 {
		t.Errorf("%d passed, %+v", n, last.Results)
	}
}

// TestWrongCall: an invalid call fails before any server is called.
func TestWrongCall(t *testing.T) {
	b := newBench(t)
	take := stint.Take{Key: b.keys[0], Limit: hour, Cost: 1}
	other, reset := take, take
	other.Key, reset.Op = b.keys[1], stint.Reset
	for _, takes := range [][]stint.Take{{other, take, reset}, {other, {Limit: hour}}} {
		call := stint.Call{At: noon, Takes: takes}
		if err := b.Decide(t.Context(), &call); !errors.Is(err, stint.ErrWrongCall) || strings.Contains(err.Error(), "server") {
			t.Error(err)
		}
	}
	if b.servers[0].asked+b.servers[1].asked != 0 {
		t.Error("servers were asked")
	}
}

// TestHotPath: a call for one server allocates nothing.
func TestHotPath(t *testing.T) {
	s := over(t, func(int) stint.Store { return memory.New(memory.Options{Budget: 1 << 20}) })
	call := stint.Call{At: noon, Takes: []stint.Take{{Key: "a", Handling: &stint.Handling{Place: "p"}, Limit: hour, Cost: 1}, {Key: "b", Handling: &stint.Handling{Place: "p"}, Limit: hour, Cost: 1}}}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
	}); n > 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
}

// TestLateRefundOfGrants: the grants of a take that is given back after its caller has gone are those that it
// brought, also if the caller has used the memory for the next client meanwhile.
func TestLateRefundOfGrants(t *testing.T) {
	for name, apart := range map[string]bool{"all or none": false, "each by itself": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				ctx, cancel := context.WithCancel(t.Context())
				back, gone := make(chan []limits.Grant, 1), make(chan struct{})
				b.servers[0].before = func(_ int, call *stint.Call) error {
					if t := &call.Takes[0]; t.Op == stint.Refund {
						<-gone
						back <- slices.Clone(t.Handling.Meter.Grants)
					}
					return nil
				}
				b.servers[1].before = func(_ int, call *stint.Call) error {
					if call.Takes[0].Cost == 0 {
						return nil
					}
					cancel()
					return ctx.Err()
				}
				window := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
				grants := []limits.Grant{{ID: "own", Units: 5, Priority: 1, Until: noon.Add(time.Hour)}}
				call := stint.Call{At: noon, Takes: []stint.Take{
					{Key: b.keys[0], Limit: window, Cost: 4, Handling: &stint.Handling{Meter: &limits.Meter{Grants: grants}}, Independent: apart},
					{Key: b.keys[1], Limit: window, Cost: 4, Independent: apart},
				}}
				if err := b.Decide(ctx, &call); !errors.Is(err, context.Canceled) || !errors.Is(err, stint.ErrUnknown) {
					t.Error(err)
				}
				grants[0] = limits.Grant{ID: "another client's", Units: 7, Priority: 1, Until: noon.Add(48 * time.Hour)}
				close(gone)
				b.Close()
				if got := <-back; got[0].ID != "own" {
					t.Errorf("gave back by %+v", got)
				}
			})
		})
	}
}

// TestCloseBesideCalls closes a store beside calls whose callers leave, so that they give back in the background:
// nothing is given back after Close has returned but by a call that has not returned yet.
func TestCloseBesideCalls(t *testing.T) {
	for range 300 {
		b := newBench(t)
		var inside atomic.Int64 // calls of the server, and callers that have not returned
		b.servers[1].before = func(n int, call *stint.Call) error {
			if call.Takes[0].Cost > 0 {
				return errGone
			}
			return nil
		}
		var closed atomic.Bool
		var callers, group sync.WaitGroup
		b.servers[0].before = func(int, *stint.Call) error {
			if closed.Load() && inside.Load() == 0 {
				t.Error("a server is asked after all calls and Close have returned")
			}
			return nil
		}
		for range 4 {
			inside.Add(1)
			callers.Go(func() {
				defer inside.Add(-1)
				for range 5 {
					ctx, cancel := context.WithCancel(t.Context())
					call := stint.Call{At: noon, Takes: []stint.Take{{Key: b.keys[0], Limit: hour, Cost: 1}, {Key: b.keys[1], Limit: hour, Cost: 1}}}
					go cancel()
					_ = b.Decide(ctx, &call) // only what it gives back counts
					cancel()
				}
			})
		}
		group.Go(func() {
			b.Close()
			closed.Store(true)
		})
		callers.Wait()
		group.Wait()
	}
}
