package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
)

// garbled decides like a store in memory that cannot read the states of keys which begin with
// "bad": everything that is not decided as one with one of these.
func garbled() func(context.Context, *stint.Call) error {
	server := testkit.UndecodableStore{
		Store: memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return stint.At(time.Now()) }}),
		Bad:   func(key stint.Key) bool { return strings.HasPrefix(string(key), "bad") },
	}
	return server.Decide
}

// borrowing returns a take that borrows from the next one.
func borrowing(t stint.Take) stint.Take { t.Borrows = 1; return t }

// TestUndecodable: a key whose state cannot be read follows its policy, and the store decides all
// others.
func TestUndecodable(t *testing.T) {
	has := func(n int64) stint.Decision {
		return stint.Decision{Allowed: true, Limit: 10, Remaining: n, ResetAfter: time.Hour, At: now}
	}
	none := stint.Decision{Limit: 10, RetryAfter: time.Hour, ResetAfter: time.Hour, At: now}
	untouched := has(10)
	for _, test := range []struct {
		name   string
		before []stint.Take
		takes  []stint.Take
		want   []stint.Decision
		left   int64 // of the key "good"
	}{
		{"alone", nil, []stint.Take{allow("bad")}, []stint.Decision{passed}, 10},
		{"with another one", nil, []stint.Take{allow("good"), allow("bad")}, []stint.Decision{has(9), passed}, 9},
		{"two of them", nil, []stint.Take{allow("bad1"), allow("good"), allow("bad2")}, []stint.Decision{passed, has(9), passed}, 9},
		{"denied", nil, []stint.Take{allow("good"), deny("bad")}, []stint.Decision{untouched, barred}, 10},
		{"denied, while something is forced", nil, []stint.Take{forced(costs(3, allow("good"))), deny("bad")}, []stint.Decision{untouched, barred}, 10},
		{"denied, while something is overdrawn", nil, []stint.Take{owing(costs(4, allow("good"))), deny("bad")}, []stint.Decision{has(6), barred}, 6},
		{"the other one denies", []stint.Take{costs(10, allow("good"))}, []stint.Take{allow("good"), allow("bad")}, []stint.Decision{none, passed}, 0},
		{"by a share", nil, []stint.Take{allow("good"), local("bad")}, []stint.Decision{has(9), left(1)}, 9},
		{"by a share that is used up", []stint.Take{costs(2, local("bad"))}, []stint.Take{allow("good"), local("bad")}, []stint.Decision{untouched, spent(0)}, 10},
		{"by a share that is given back", []stint.Take{costs(10, allow("good"))}, []stint.Take{allow("good"), local("bad")}, []stint.Decision{none, {Allowed: true, Degraded: true, Limit: 2, Remaining: 2, ResetAfter: time.Hour, At: now}}, 0},
		{"by a share that is overdrawn", []stint.Take{costs(10, allow("good"))}, []stint.Take{allow("good"), owingLocal("bad")}, []stint.Decision{none, left(1)}, 0},
		{"by a share, forced, that is given back", []stint.Take{costs(10, allow("good"))}, []stint.Take{allow("good"), forced(local("bad"))}, []stint.Decision{none, left(2)}, 0},
		{"apart", nil, []stint.Take{apartly(deny("bad")), allow("good"), apartly(allow("good"))}, []stint.Decision{barred, has(9), has(8)}, 8},
		{"with one apart", nil, []stint.Take{deny("bad"), apartly(allow("good"))}, []stint.Decision{barred, has(9)}, 9},
		{"it borrows", nil, []stint.Take{borrowing(allow("bad")), allow("good")}, []stint.Decision{passed, passed}, 10},
		{"it is a source", nil, []stint.Take{borrowing(allow("good")), allow("bad")}, []stint.Decision{has(9), passed}, 9},
		{"at most", []stint.Take{costs(7, allow("good"))}, []stint.Take{atMost(5, allow("bad")), atMost(5, allow("good"))}, []stint.Decision{charged(3, passed), charged(3, has(0))}, 0},
		{"at most, by a share", nil, []stint.Take{atMost(5, allow("good")), atMost(5, local("bad"))}, []stint.Decision{charged(2, has(8)), charged(2, left(0))}, 8},
		{"at most, by a share that is given back in part", []stint.Take{costs(9, allow("good"))}, []stint.Take{atMost(5, allow("good")), atMost(5, local("bad"))}, []stint.Decision{charged(1, has(0)), charged(1, left(1))}, 0},
		{"at most, by a share that is given back", []stint.Take{costs(10, allow("good"))}, []stint.Take{atMost(5, allow("good")), atMost(5, local("bad"))}, []stint.Decision{none, {Allowed: true, Degraded: true, Limit: 2, Remaining: 2, ResetAfter: time.Hour, At: now}}, 0},
		{"others borrow", nil, []stint.Take{allow("bad"), borrowing(allow("good")), allow("pool")}, []stint.Decision{passed, has(9), has(9)}, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, unhurried)
				b.fake.be(garbled())
				at := now
				for _, take := range test.before {
					must(b, &stint.Call{At: at, Takes: []stint.Take{take}})
				}
				call := stint.Call{At: at, Takes: test.takes}
				must(b, &call)
				for i := range call.Results {
					call.Results[i].ResetAfter = min(call.Results[i].ResetAfter, test.want[i].ResetAfter) // when a window began is random
					if call.Results[i] != test.want[i] {
						t.Errorf("take %d: %+v, want %+v", i, call.Results[i], test.want[i])
					}
				}
				look := stint.Call{At: at, Takes: []stint.Take{costs(0, allow("good"))}}
				must(b, &look)
				if n := look.Results[0].Remaining; n != test.left {
					t.Errorf("%d are left of the good key, want %d", n, test.left)
				}
				b.away(false)
			})
		})
	}
}

func must(b *bench, call *stint.Call) {
	b.Helper()
	if err := b.Decide(b.Context(), call); err != nil {
		b.Fatal(err)
	}
}

// A take without a policy fails with the store's error, and so does one whose policy is Fail.
func TestUndecodableFails(t *testing.T) {
	b := newBench(t, unhurried)
	b.fake.be(garbled())
	failing := allow("good")
	failing.Handling = &stint.Handling{OnFailure: stint.Fail}
	for _, takes := range [][]stint.Take{
		{{Key: "bad", Limit: ten, Op: stint.Refund, Cost: 1}},
		{failing, allow("bad")},
	} {
		err := b.Decide(t.Context(), &stint.Call{Takes: takes})
		if transaction.Undecodable(err) == nil {
			t.Errorf("%v of %+v", err, takes)
		}
	}
	b.fake.be(refused)
	if err := b.Decide(t.Context(), &stint.Call{Takes: []stint.Take{failing}}); !errors.Is(err, errRefused) {
		t.Errorf("%v of a store that is gone", err)
	}
}

// Keys that cannot be read never open the breaker, however often they are used; and such an answer
// closes it.
func TestUndecodableIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Timeout: 10 * time.Millisecond})
		b.fake.be(garbled())
		for range 1000 {
			time.Sleep(time.Millisecond) // in the bubble's time
			must(b, &stint.Call{Takes: []stint.Take{allow("bad")}})
		}
		b.away(false)
		if s := b.Status(); s.Undecodable != 1000 || s.Errors != 0 || transaction.Undecodable(s.UndecodableErr) == nil {
			t.Errorf("%+v", s)
		}
		b.freeze()
		b.fake.be(garbled())
		time.Sleep(time.Second)
		must(b, &stint.Call{Takes: []stint.Take{allow("bad")}})
		b.away(false)
	})
}

// An error has the indexes of the takes in the call even if the guard divided it.
func TestUndecodableNumbers(t *testing.T) {
	reset := stint.Take{Key: "bad", Limit: ten, Op: stint.Reset, Independent: true}
	for _, test := range []struct {
		name  string
		takes []stint.Take
		want  []int
	}{
		{"alone", []stint.Take{reset}, []int{0}},
		{"behind what is undone here", []stint.Take{undone(local("a"), left(1)), allow("good"), reset}, []int{2}},
		{"two", []stint.Take{undone(local("a"), left(1)), reset, allow("good"), reset}, []int{1, 3}},
	} {
		b := newBench(t, unhurried)
		b.fake.be(garbled())
		call := stint.Call{At: now, Takes: test.takes}
		undecodable := transaction.Undecodable(b.Decide(t.Context(), &call))
		if undecodable == nil || !slices.Equal(undecodable.Takes, test.want) {
			t.Errorf("%s: %v, want %d", test.name, undecodable, test.want)
		}
		for i, take := range test.takes {
			if take.Key == "good" && call.Results[i].Remaining != 9 {
				t.Errorf("%s: %+v", test.name, call.Results[i])
			}
			if take.Op == stint.Refund && !call.Results[i].Allowed {
				t.Errorf("%s: %+v", test.name, call.Results[i])
			}
		}
	}
}

// TestUndoneWithOthers: a policy's decision is undone if, and only if, all that is decided as one
// with it is: after an error that names it, nothing happened, and a denial takes nothing.
func TestUndoneWithOthers(t *testing.T) {
	refund := func(key stint.Key) stint.Take { return stint.Take{Key: key, Limit: ten, Cost: 1, Op: stint.Refund} }
	together := func(d stint.Decision) stint.Take {
		t := undone(costs(2, local("a")), d)
		t.Independent = false
		return t
	}
	apart := func(d stint.Decision) stint.Take { return undone(costs(2, local("a")), d) }
	for _, test := range []struct {
		name        string
		undo        func(stint.Decision) stint.Take
		with        stint.Take
		undecodable []int
		left        int64 // of the share
	}{
		{"one that cannot be read", together, refund("bad"), []int{1}, 0},
		{"one that cannot be read, apart", together, apartly(refund("bad")), []int{1}, 2},
		{"apart from one that cannot be read", apart, refund("bad"), []int{1}, 2},
		{"one that is given back", together, refund("good"), nil, 2},
		{"one that passes", together, allow("good"), nil, 2},
		{"one that is denied", together, costs(11, allow("good")), nil, 0},
		{"one that a policy denies", together, deny("bad"), nil, 0},
		{"one that is denied apart", together, apartly(costs(11, allow("good"))), nil, 2},
		{"apart from one that is denied", apart, costs(11, allow("good")), nil, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, unhurried)
			b.fake.be(refused)
			taken := stint.Call{At: now, Takes: []stint.Take{costs(2, local("a"))}}
			must(b, &taken)
			b.fake.be(garbled())
			call := stint.Call{At: now, Takes: []stint.Take{test.undo(taken.Results[0]), test.with}}
			err := b.Decide(t.Context(), &call)
			if storeErr := transaction.Undecodable(err); (storeErr == nil) != (test.undecodable == nil) || storeErr != nil && !slices.Equal(storeErr.Takes, test.undecodable) {
				t.Errorf("%v, want %d", err, test.undecodable)
			}
			if transaction.Decided(&call, transaction.Undecodable(err), 0) && call.Results[0].Remaining != test.left {
				t.Errorf("%+v, want %d left", call.Results[0], test.left)
			}
			b.fake.be(refused)
			look := stint.Call{At: now, Takes: []stint.Take{costs(0, local("a"))}}
			must(b, &look)
			if n := look.Results[0].Remaining; n != test.left {
				t.Errorf("%d are left of the share, want %d", n, test.left)
			}
		})
	}
}

// TestUndecodableThenFails: if a call fails after Local has decided a part of it, nothing stays
// charged, not even there.
func TestUndecodableThenFails(t *testing.T) {
	b := newBench(t, unhurried)
	b.fake.be(func(_ context.Context, call *stint.Call) error {
		if len(call.Takes) > 1 {
			return &stint.CorruptState{Takes: []int{0}}
		}
		return errRefused
	})
	call := stint.Call{At: now, Takes: []stint.Take{local("bad"), {Key: "good", Limit: ten, Op: stint.Refund, Cost: 1}}}
	if err := b.Decide(t.Context(), &call); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	look := stint.Call{At: now, Takes: []stint.Take{costs(0, local("bad"))}}
	must(b, &look)
	if n := look.Results[0].Remaining; n != 2 {
		t.Errorf("%d are left of the share, want 2", n)
	}
}

// alive is a store like one behind a network: it decides nothing when the context has ended.
type alive struct{ stint.Store }

func (s alive) Decide(ctx context.Context, call *stint.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Decide(ctx, call)
}

// TestUndecodableCallerGone: what a share was charged is given back also if the caller leaves while the store
// decides the rest of the call.
func TestUndecodableCallerGone(t *testing.T) {
	o := unhurried
	o.Local = alive{memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})}
	b := newBench(t, o)
	gone, leave := context.WithCancel(t.Context())
	answer := garbled()
	b.fake.be(func(ctx context.Context, call *stint.Call) error {
		if !slices.ContainsFunc(call.Takes, func(t stint.Take) bool { return t.Key == "bad" }) {
			leave()
			return errRefused
		}
		return answer(ctx, call)
	})
	call := stint.Call{At: now, Takes: []stint.Take{deny("good"), costs(2, local("bad"))}}
	if err := b.Decide(gone, &call); err == nil {
		t.Fatalf("%+v", call.Results)
	}
	b.fake.be(garbled())
	again := stint.Call{At: now, Takes: []stint.Take{costs(2, local("bad"))}}
	if err := b.Decide(t.Context(), &again); err != nil || !again.Results[0].Allowed {
		t.Errorf("the share has not got its units back: %+v, %v", again.Results, err)
	}
}
