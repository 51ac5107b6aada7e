package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/fleet/quota"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/store/memory"
)

// began is when tests begin.
var began = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// fixture is a process with a part of limits, and the store behind it.
type fixture struct {
	*testing.T
	*quota.Store
	now         stint.Instant
	away        bool      // the store cannot be asked: a guard answers
	undecodable stint.Key // the store cannot read the state of that: a guard answers
	asks        int       // what the store was asked
	back        *memory.Store
}

// Decide is part of stint.Store: it is the store behind, under a guard.
func (f *fixture) Decide(ctx context.Context, call *stint.Call) error {
	f.asks++
	call.At = f.now
	if err := f.back.Decide(ctx, call); err != nil {
		return err
	}
	for i := range call.Results {
		if !f.away && call.Takes[i].Key != f.undecodable {
			continue
		}
		pass := !call.Takes[i].Op.Asks() || call.Takes[i].Cost == 0
		call.Results[i] = stint.Decision{Allowed: pass, Degraded: true, Limit: call.Takes[i].Limit.Capacity(), At: f.now}
		if !pass {
			call.Results[i].RetryAfter = time.Second
		}
	}
	return nil
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, now: began, back: memory.New(memory.Options{})}
	f.Store = quota.New(f, quota.Options{Clock: func() stint.Instant { return f.now }})
	return f
}

// take asks for units of a rule's key.
func (f *fixture) take(terms *stint.Terms, key stint.Key, cost uint32) stint.Decision {
	f.Helper()
	return f.decide(ask(terms, key, cost))[0]
}

func ask(terms *stint.Terms, key stint.Key, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: terms.Limit, Cost: cost, Handling: &stint.Handling{Terms: terms, OnFailure: stint.Local, Local: terms.Own}}
}

func (f *fixture) decide(takes ...stint.Take) []stint.Decision {
	f.Helper()
	call := stint.Call{Takes: takes}
	if err := f.Store.Decide(context.Background(), &call); err != nil {
		f.Fatal(err)
	}
	return call.Results
}

func (f *fixture) change(all ...*stint.Terms) {
	f.Helper()
	defer f.Pause()()
	if err := f.Change(context.Background(), all); err != nil {
		f.Fatal(err)
	}
}

// spec is a bucket of 100 that refills one unit each 100 ms.
var spec = stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 100}

// divided returns terms of two nodes, each with a share of a limit of 100.
func divided(burst uint32) *stint.Terms {
	part := spec
	part.Burst, part.Requests, part.Per = burst, 1, 5*time.Second/time.Duration(burst)*2
	return terms(stint.MustLimit(spec), stint.MustLimit(part))
}

// undivided are terms of the same rule without parts.
func undivided() *stint.Terms { return terms(stint.MustLimit(spec), nil) }

func terms(limit, part *stint.Limit) *stint.Terms {
	t := &stint.Terms{Domain: "api", Rule: "api/user", Limit: limit, Coordination: stint.Leased}
	if part != nil {
		t.Own, t.Rest = limits.Divide(limit, part, 2)
	}
	return t
}

// pass lets time pass.
func (f *fixture) pass(d time.Duration) { f.now = f.now.Add(d) }

// drain takes single units until one is denied, and returns how many passed.
func (f *fixture) drain(terms *stint.Terms) (n int) {
	f.Helper()
	for f.take(terms, "k", 1).Allowed {
		n++
	}
	return n
}

// A part begins empty, fills up, is spent first, and goes on while the store is away.
func TestPart(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	if d := f.take(rule, "k", 1); !d.Allowed || d.Own || d.Limit != 100 || d.Remaining != 79 {
		t.Errorf("at first the store decides: %+v", d)
	}
	f.pass(11 * time.Second) // eleven units of the share, which has ten
	f.asks = 0
	for i := range 10 {
		if d := f.take(rule, "k", 1); !d.Allowed || !d.Own || d.Limit != 100 || d.Remaining != int64(89-i) {
			t.Fatalf("take %d of the part: %+v", i, d)
		}
	}
	if f.asks > 0 {
		t.Errorf("the store was asked %d times", f.asks)
	}
	if n := f.drain(rule); n != 80 {
		t.Errorf("the store let %d pass, want 80", n)
	}
	if d := f.take(rule, "k", 1); d.Allowed || d.Degraded || d.RetryAfter != 125*time.Millisecond {
		t.Errorf("nothing is left: %+v, want to come back when the store has one more", d)
	}
	f.away = true
	if d := f.take(rule, "k", 1); d.Allowed || !d.Degraded || d.RetryAfter != time.Second || d.Limit != 100 {
		t.Errorf("the store is away: %+v", d)
	}
	f.pass(400 * time.Millisecond)
	if d := f.take(rule, "k", 1); d.Allowed || d.RetryAfter != 600*time.Millisecond {
		t.Errorf("the part has one in 600ms, before the store is asked again: %+v", d)
	}
	f.pass(600 * time.Millisecond)
	if d := f.take(rule, "k", 1); !d.Allowed || d.Degraded || !d.Own {
		t.Errorf("the part goes on: %+v", d)
	}
	for _, cost := range []uint32{81, 101} {
		if d := f.take(rule, "k", cost); d.Allowed {
			t.Errorf("%d fit into neither part nor rest: %+v", cost, d)
		}
	}
}

// A share of a window passes at most its units in any interval as long as the window.
func TestPartOfWindow(t *testing.T) {
	f := newFixture(t)
	f.away = true
	window := stint.Spec{Requests: 100, Per: 10 * time.Second}
	part := window
	part.Requests = 5
	rule := terms(stint.MustLimit(window), stint.MustLimit(part))
	f.change(rule)
	for i, want := range []int{0, 5, 0, 5} {
		if n := f.drain(rule); n != want {
			t.Errorf("%d passed after %d times 5 s, want %d", n, i, want)
		}
		if f.pass(5 * time.Second); i == 0 {
			f.pass(8 * time.Second)
		}
	}
}

// Of a call of several takes those that are charged here are given back if the store denies,
// and to the unit.
func TestTogether(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	f.pass(time.Minute)
	other := stint.Take{Key: "other", Limit: stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour}), Cost: 1}
	for i := range 4 {
		got := f.decide(ask(rule, "k", 2), ask(rule, "k", 1), other)
		if got[0].Allowed != true || got[2].Allowed != (i < 2) {
			t.Fatalf("call %d: %+v", i, got)
		}
	}
	if d := f.take(rule, "k", 0); d.Remaining != 84 {
		t.Errorf("two calls of three passed, and %d of 90 are left", d.Remaining)
	}
	apart := ask(rule, "k", 1)
	apart.Independent = true
	if got := f.decide(apart, other); !got[0].Allowed || !got[0].Own || got[1].Allowed {
		t.Errorf("one that is apart: %+v", got)
	}
	if d := f.take(rule, "k", 0); d.Remaining != 83 {
		t.Errorf("%d of 90 are left, want 83", d.Remaining)
	}
	f.away = true
	if got := f.decide(ask(rule, "k", 1), ask(rule, "k", 50)); got[0].Allowed != true || got[1].Allowed || f.take(rule, "k", 0).Remaining != 3 {
		t.Errorf("nobody can ask for 50: %+v", got)
	}
}

// What was charged to a part is given back there, and to nobody once the rule has changed.
func TestGiveBack(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	f.pass(time.Minute)
	d := f.take(rule, "k", 4)
	back := ask(rule, "k", 4)
	back.Op, back.Undo = stint.Refund, &d
	if got := f.decide(back)[0]; !got.Allowed || got.Remaining != 90 || f.asks > 0 {
		t.Errorf("4 were given back to the part: %+v, and the store asked %d times", got, f.asks)
	}
	d = f.take(rule, "k", 4)
	f.change(undivided())
	if got := f.decide(back)[0]; !got.Allowed {
		t.Errorf("what belongs to no part: %+v", got)
	}
	if left := f.take(undivided(), "k", 0).Remaining; left != 96 {
		t.Errorf("%d of 100 are left", left)
	}
}

// What is forced while the store is away is debited to the part; a reset forgets that too.
func TestForceAndReset(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	f.pass(time.Minute)
	f.away = true
	forced := ask(rule, "k", 15)
	forced.Op = stint.Force
	if d := f.decide(forced)[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
	if d := f.take(rule, "k", 1); d.Allowed || d.Remaining != 0 {
		t.Errorf("the part is in debt: %+v", d)
	}
	f.away = false
	reset := ask(rule, "k", 0)
	reset.Op = stint.Reset
	f.decide(reset)
	if n := f.drain(rule); n != 90 {
		t.Errorf("%d passed after a reset, want 90: the other process has the rest", n)
	}
}

// However a rule changes while its key is asked for, nobody passes twice.
func TestChange(t *testing.T) {
	window := stint.Spec{Requests: 100, Per: time.Hour}
	windowOf := func(part uint32) *stint.Terms {
		if part == 0 {
			return terms(stint.MustLimit(window), nil)
		}
		own := window
		own.Requests = part
		return terms(stint.MustLimit(window), stint.MustLimit(own))
	}
	for _, test := range []struct {
		name   string
		before *stint.Terms
		after  *stint.Terms
		most   int // that pass at once over the change, in this process
	}{
		{"divided", undivided(), divided(10), 100},
		{"divided no longer", divided(10), undivided(), 100},
		{"a larger part", divided(5), divided(20), 100},
		{"a smaller part", divided(20), divided(5), 100},
		{"the same", divided(10), divided(10), 90},
		{"counted in another way", divided(10), windowOf(0), 190},
		{"a window that is divided", windowOf(0), windowOf(10), 100},
		{"a window that is divided no longer", windowOf(10), windowOf(0), 100},
		{"a window with a larger part", windowOf(5), windowOf(20), 100},
		{"a window with a smaller part", windowOf(20), windowOf(5), 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.change(test.before)
			f.pass(2 * time.Hour)
			n := f.drain(test.before)
			f.change(test.after)
			if n += f.drain(test.after); n > test.most {
				t.Errorf("%d passed, want at most %d", n, test.most)
			}
			f.change(test.after)
			if more := f.drain(test.after); more > 0 {
				t.Errorf("%d more passed when nothing had changed", more)
			}
		})
	}
}

// A part of which nothing is used stays full over a change that does not concern it.
func TestChangeKeeps(t *testing.T) {
	f := newFixture(t)
	f.change(divided(10))
	f.pass(time.Minute)
	f.away = true
	f.change(divided(10))
	if n := f.drain(divided(10)); n != 10 {
		t.Errorf("%d of the 10 of the part passed after a reload", n)
	}
	f.away = false
	f.change(undivided())
	f.pass(time.Second)
	f.change(divided(10))
	f.away = true
	f.pass(2 * time.Second)
	if n := f.drain(divided(10)); n != 2 {
		t.Errorf("%d passed 2 s after the limit was divided once more, want 2", n)
	}
}

// What the store cannot be told is an error, and takes go on.
func TestChangeAway(t *testing.T) {
	f := newFixture(t)
	f.change(divided(10))
	f.pass(time.Minute)
	f.drain(divided(10))
	f.away = true
	release := f.Pause()
	if f.Change(context.Background(), []*stint.Terms{undivided()}) == nil {
		t.Error("a store that is away was told")
	}
	release()
	f.take(undivided(), "k", 1)
}

// A key whose state the store cannot read is an error, and all others are told.
func TestChangeUnread(t *testing.T) {
	f := newFixture(t)
	f.change(divided(10))
	f.pass(time.Minute)
	const keys = 500 // in several messages
	name := func(i int) stint.Key { return stint.Key(fmt.Sprint("k", i)) }
	for i := range keys {
		f.take(divided(10), name(i), 1)
	}
	f.undecodable = name(0)
	release := f.Pause()
	err := f.Change(context.Background(), []*stint.Terms{undivided()})
	release()
	if err == nil || !strings.Contains(err.Error(), " 1;") {
		t.Errorf("%v, want one key not debited", err)
	}
	for i := 1; i < keys; i++ {
		if d := f.take(undivided(), name(i), 0); d.Remaining != d.Limit-1 {
			t.Fatalf("%s was not debited: %+v", name(i), d)
		}
	}
}

// Takes of a divided limit that come while it changes wait, and are decided by the new one.
func TestChangeHoldsBack(t *testing.T) {
	f, old := newFixture(t), divided(10)
	f.change(old)
	f.pass(time.Minute)
	f.drain(old)
	release := f.Pause()
	if err := f.Change(context.Background(), []*stint.Terms{undivided()}); err != nil {
		t.Fatal(err)
	}
	f.drain(undivided()) // what the other process has to itself no more
	passed := make(chan bool)
	go func() {
		call := stint.Call{Takes: []stint.Take{ask(old, "k", 1)}}
		err := f.Store.Decide(context.Background(), &call)
		passed <- err == nil && call.Results[0].Allowed
	}()
	select {
	case <-passed:
		t.Fatal("it did not wait")
	default:
	}
	release()
	if <-passed {
		t.Error("one that came with the old terms passed a limit that is used up")
	}
}

// If there are too many keys some shares count as used up, and none as full.
func TestTooManyKeys(t *testing.T) {
	f := newFixture(t)
	f.Store = quota.New(f, quota.Options{Keys: 64, Clock: func() stint.Instant { return f.now }})
	f.away = true
	rule := divided(10)
	f.change(rule)
	f.pass(time.Minute)
	passed := map[stint.Key]int{}
	for round := range 3 {
		for i := range 1000 {
			key := stint.Key(fmt.Sprint("key", i))
			for f.take(rule, key, 1).Allowed {
				passed[key]++
			}
			if passed[key] > 10 {
				t.Fatalf("%d of %s passed by round %d, want at most 10", passed[key], key, round)
			}
		}
	}
	if n := f.Keys(); n > 128 {
		t.Errorf("%d keys are known", n)
	}
}

// A part is spent once by however many ask at a time.
func TestTogetherExact(t *testing.T) {
	rule, now := divided(10), atomic.Int64{}
	now.Store(int64(began))
	s := quota.New(nothing{}, quota.Options{Clock: func() stint.Instant { return stint.Instant(now.Load()) }})
	if err := s.Change(context.Background(), []*stint.Terms{rule}); err != nil {
		t.Fatal(err)
	}
	now.Add(time.Minute.Microseconds())
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			call := stint.Call{}
			for range 100 {
				call.Takes = append(call.Takes[:0], ask(rule, "k", 1))
				if s.Decide(context.Background(), &call) == nil {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d of the 10 of the part passed", passed.Load())
	}
}

// nothing is a store that fails.
type nothing struct{}

// Decide is part of stint.Store.
func (nothing) Decide(context.Context, *stint.Call) error { return errors.New("nothing") }

// What is decided from a part allocates nothing.
func TestAllocations(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second, Burst: 1_000_000})
	part := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100_000, Per: time.Second, Burst: 100_000})
	rule := terms(limit, part)
	now := began
	s := quota.New(nothing{}, quota.Options{Clock: func() stint.Instant { return now }})
	if err := s.Change(context.Background(), []*stint.Terms{rule}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	call := stint.Call{Takes: []stint.Take{ask(rule, "k", 1)}}
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.Decide(context.Background(), &call); err != nil || !call.Results[0].Own {
			t.Fatalf("%v, %+v", err, call.Results)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A take of at most some units is charged to the share if that has all of it, else to the store. If
// the store has nothing, or is away, it gets what the share has. It is denied only if both have
// nothing, and given back where it was charged.
func TestAtMost(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	f.pass(time.Minute) // 10 units in the share, 80 at the store
	at := func(key stint.Key, most uint32) stint.Take {
		on := ask(rule, key, most)
		on.Op = stint.AskAtMost
		return on
	}
	expect := func(d stint.Decision, charged uint32, own bool, remaining int64) {
		t.Helper()
		if d.Allowed != (charged > 0) || d.Charged != charged || d.Own != own || d.Remaining != remaining {
			t.Errorf("%+v, want %d charged, own %v, %d remaining", d, charged, own, remaining)
		}
	}
	expect(f.decide(at("k", 7))[0], 7, true, 83)
	expect(f.decide(at("k", 5))[0], 5, false, 78)
	expect(f.decide(at("k", 500))[0], 75, false, 3)
	last := f.decide(at("k", 5))[0]
	expect(last, 3, true, 0)
	expect(f.decide(at("k", 5))[0], 0, false, 0)
	back := ask(rule, "k", last.Charged)
	back.Op, back.Undo = stint.Refund, &last
	f.decide(back)
	f.away = true
	expect(f.decide(at("k", 5))[0], 3, true, 0)
	f.away = false
	small := stint.Take{Key: "small", Limit: stint.MustLimit(stint.Spec{Requests: 4, Per: time.Hour}), Cost: 9, Op: stint.AskAtMost}
	apart := at("apart", 400)
	apart.Independent = true
	for i, d := range f.decide(at("other", 9), small, apart, at("third", 30)) { // small has the fewest
		expect(d, []uint32{4, 4, 80, 4}[i], i == 0 || i == 3, []int64{86, 0, 10, 86}[i])
	}
}

// In a call of several takes that the store denies, takes of at most some units get 1 unit of their
// shares, and everything is given back if another take denies.
func TestAtMostTogether(t *testing.T) {
	f, rule := newFixture(t), divided(10)
	f.change(rule)
	f.pass(time.Minute)
	at := func(key stint.Key, most uint32) stint.Take {
		on := ask(rule, key, most)
		on.Op = stint.AskAtMost
		return on
	}
	f.decide(ask(rule, "k", 80)) // from the store
	if d := f.decide(at("k", 30), at("l", 20)); d[0].Charged != 1 || d[1].Charged != 1 || !d[0].Own || !d[1].Own {
		t.Errorf("%+v", d)
	}
	never := stint.Take{Key: "never", Limit: stint.MustLimit(stint.Spec{Per: time.Hour}), Cost: 1}
	if d := f.decide(at("k", 30), at("l", 20), never); d[0].Charged != 0 || d[1].Charged != 0 || d[2].Allowed {
		t.Errorf("%+v", d)
	}
	if k, l := f.take(rule, "k", 0), f.take(rule, "l", 0); k.Remaining != 9 || l.Remaining != 89 {
		t.Errorf("%d and %d are left, want 9 and 89", k.Remaining, l.Remaining)
	}
}

// If the store fails while a denied call is decided again, nothing stays charged, and the error says
// so; if it keeps failing, the error is ErrUnknown.
func TestAtMostFails(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		f, rule := newFixture(t), divided(10)
		s := quota.New(&failing{Store: f, keeps: keeps}, quota.Options{Clock: func() stint.Instant { return f.now }})
		testkit.Must(t, s.Change(t.Context(), []*stint.Terms{rule}))
		one := ask(rule, "k", 30)
		one.Op = stint.AskAtMost
		two, apart := one, stint.Take{Key: "apart", Limit: stint.MustLimit(spec), Cost: 4, Independent: true}
		two.Key = "l"
		testkit.Decide(t, &failing{Store: f}, stint.Take{Key: "k", Limit: rule.Rest, Cost: 80})
		err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{one, two, apart}})
		left := testkit.Decide(t, &failing{Store: f}, stint.Take{Key: "apart", Limit: apart.Limit})[0].Remaining
		if !errors.Is(err, errAway) || errors.Is(err, stint.ErrUnknown) != keeps || (left == 100) == keeps {
			t.Errorf("keeps failing %v: %v, %d left", keeps, err, left)
		}
	}
}

// failing is a store whose second call fails, or all after the first.
type failing struct {
	stint.Store
	calls int
	keeps bool
}

var errAway = errors.New("away")

// Decide is part of stint.Store.
func (f *failing) Decide(ctx context.Context, call *stint.Call) error {
	if f.calls++; f.calls == 2 || f.calls > 2 && f.keeps {
		return errAway
	}
	return f.Store.Decide(ctx, call)
}
