package guard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/store/memory"
)

var (
	ten  = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
	owes = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Overdraw: true})
	debt = stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour, Overdraw: true}) // local limit of owes
	two  = stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})                 // local limit of ten
	free = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	now  = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
)

// allow, deny and local return takes of one unit under each policy.
func allow(key stint.Key) stint.Take { return stint.Take{Key: key, Limit: ten, Cost: 1} }

func deny(key stint.Key) stint.Take {
	return stint.Take{Key: key, Limit: ten, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Deny}}
}

func local(key stint.Key) stint.Take {
	return stint.Take{Key: key, Limit: ten, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: two}}
}

func costs(cost uint32, t stint.Take) stint.Take { t.Cost = cost; return t }

func apartly(t stint.Take) stint.Take { t.Independent = true; return t }

func owing(t stint.Take) stint.Take { t.Limit = owes; return t }

func owingLocal(key stint.Key) stint.Take {
	return stint.Take{Key: key, Limit: owes, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: debt}}
}

func atMost(cost uint32, t stint.Take) stint.Take {
	t.Cost, t.Op = cost, stint.AskAtMost
	return t
}

// charged returns the decision d with n charged units.
func charged(n uint32, d stint.Decision) stint.Decision { d.Charged = n; return d }

func forced(t stint.Take) stint.Take { t.Op = stint.Force; return t }

func undone(t stint.Take, d stint.Decision) stint.Take {
	t.Op, t.Undo, t.Independent = stint.Refund, &d, true
	return t
}

// Decisions of policies for these takes.
var (
	passed = stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit, At: now}
	barred = stint.Decision{Degraded: true, Limit: 10, RetryAfter: time.Second, ResetAfter: time.Second, At: now}
	looked = stint.Decision{Allowed: true, Degraded: true, Limit: 10, ResetAfter: time.Second, At: now}
)

func left(n int64) stint.Decision {
	return stint.Decision{Allowed: true, Degraded: true, Limit: 2, Remaining: n, ResetAfter: time.Hour, At: now}
}

func spent(n int64) stint.Decision {
	return stint.Decision{Degraded: true, Limit: 2, Remaining: n, RetryAfter: time.Second, ResetAfter: time.Hour, At: now}
}

// TestPolicies: each take follows its own policy, Deny denies the others of a call too, and Local
// keeps to its limit, all or none.
func TestPolicies(t *testing.T) {
	type step struct {
		takes []stint.Take
		want  []stint.Decision
	}
	leaning := stint.Take{Key: "a", Limit: ten, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: two}, Borrows: 2}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"allow", []step{{[]stint.Take{allow("a"), costs(11, allow("b")), costs(0, allow("c"))}, []stint.Decision{passed, passed, passed}}}},
		{"deny", []step{
			{[]stint.Take{deny("a")}, []stint.Decision{barred}},
			{[]stint.Take{costs(0, deny("a"))}, []stint.Decision{looked}},
			{[]stint.Take{forced(deny("a"))}, []stint.Decision{looked}},
			{[]stint.Take{{Key: "a", Limit: free, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Deny}}}, []stint.Decision{passed}},
		}},
		{"local", []step{
			{[]stint.Take{local("a")}, []stint.Decision{left(1)}},
			{[]stint.Take{costs(2, local("a"))}, []stint.Decision{spent(1)}},
			{[]stint.Take{local("a"), local("b")}, []stint.Decision{left(0), left(1)}},
			{[]stint.Take{local("a"), local("b")}, []stint.Decision{spent(0), left(1)}}, // none is charged
			{[]stint.Take{local("b")}, []stint.Decision{left(0)}},
			{[]stint.Take{costs(0, local("a"))}, []stint.Decision{left(0)}},
			{[]stint.Take{costs(3, local("c"))}, []stint.Decision{{Degraded: true, Limit: 2, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, At: now}}},
			{[]stint.Take{forced(costs(2, local("c")))}, []stint.Decision{left(0)}},
			{[]stint.Take{local("c")}, []stint.Decision{spent(0)}},
		}},
		{"local without a share", []step{{[]stint.Take{{Key: "a", Limit: ten, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local}}}, []stint.Decision{barred}}}},
		{"deny wins", []step{
			{[]stint.Take{allow("a"), local("b"), deny("c")}, []stint.Decision{passed, left(2), barred}},
			{[]stint.Take{allow("a"), local("b"), costs(0, deny("c"))}, []stint.Decision{passed, left(1), looked}},
			{[]stint.Take{allow("a"), local("b"), apartly(deny("c"))}, []stint.Decision{passed, left(0), barred}},
			{[]stint.Take{deny("a"), apartly(local("d"))}, []stint.Decision{barred, left(1)}},
			{[]stint.Take{deny("a"), apartly(allow("d"))}, []stint.Decision{barred, passed}},
		}},
		{"what overdraws a share is debited also where others deny", []step{
			{[]stint.Take{owingLocal("a"), deny("b")}, []stint.Decision{left(1), barred}},
			{[]stint.Take{costs(0, owingLocal("a"))}, []stint.Decision{left(1)}},
			{[]stint.Take{costs(3, owingLocal("a")), deny("b")}, []stint.Decision{spent(0), barred}},
			{[]stint.Take{owingLocal("c"), costs(3, local("d"))}, []stint.Decision{left(1), {Degraded: true, Limit: 2, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, At: now}}},
			{[]stint.Take{costs(0, owingLocal("c"))}, []stint.Decision{left(1)}},
		}},
		{"what is forced beside one that is denied is not", []step{
			{[]stint.Take{forced(local("a")), deny("b")}, []stint.Decision{left(2), barred}},
			{[]stint.Take{costs(0, local("a"))}, []stint.Decision{left(2)}},
			{[]stint.Take{forced(local("a")), costs(3, local("d"))}, []stint.Decision{left(2), {Degraded: true, Limit: 2, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, At: now}}},
		}},
		{"allow beside a spent share", []step{
			{[]stint.Take{costs(2, local("a"))}, []stint.Decision{left(0)}},
			{[]stint.Take{allow("b"), local("a")}, []stint.Decision{passed, spent(0)}},
			{[]stint.Take{local("b"), apartly(local("a"))}, []stint.Decision{left(1), spent(0)}},
		}},
		{"a take that borrows is decided alone", []step{
			{[]stint.Take{leaning, allow("cap"), deny("pool"), allow("b")}, []stint.Decision{left(1), passed, passed, passed}},
			{[]stint.Take{costs(2, leaning), allow("cap"), deny("pool")}, []stint.Decision{spent(1), passed, passed}},
		}},
		{"at most", []step{
			{[]stint.Take{atMost(5, allow("a"))}, []stint.Decision{charged(5, passed)}},
			{[]stint.Take{atMost(5, deny("a"))}, []stint.Decision{barred}},
			{[]stint.Take{atMost(5, allow("a")), atMost(5, local("b"))}, []stint.Decision{charged(2, passed), charged(2, left(0))}},
			{[]stint.Take{atMost(5, allow("a")), atMost(5, local("b"))}, []stint.Decision{passed, spent(0)}},
			{[]stint.Take{atMost(5, allow("a")), deny("c")}, []stint.Decision{passed, barred}},
			{[]stint.Take{atMost(0, deny("a"))}, []stint.Decision{looked}},
		}},
		{"nothing", []step{{nil, nil}}},
	} {
		b := newBench(t, unhurried)
		b.fake.be(refused)
		for i, s := range test.steps {
			call := stint.Call{At: now, Takes: s.takes}
			if err := b.Decide(t.Context(), &call); err != nil {
				t.Fatalf("%s, step %d: %v", test.name, i, err)
			}
			if len(call.Results) != len(s.want) {
				t.Fatalf("%s, step %d: %d results", test.name, i, len(call.Results))
			}
			for n, d := range call.Results {
				if want := s.want[n]; d != want {
					t.Errorf("%s, step %d, take %d:\n%+v, want\n%+v", test.name, i, n, d, want)
				}
			}
		}
	}
}

// TestWithoutLocal: without Options.Local the policy Local is Deny.
func TestWithoutLocal(t *testing.T) {
	f := &fake{}
	f.be(refused)
	call := stint.Call{At: now, Takes: []stint.Take{local("a")}}
	if err := New(f, unhurried).Decide(t.Context(), &call); err != nil || call.Results[0] != barred {
		t.Errorf("%+v, %v", call.Results, err)
	}
}

// TestTimeOfDecision: a policy's decision has its time.
func TestTimeOfDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, unhurried)
		b.fake.be(refused)
		for _, take := range []stint.Take{allow("a"), deny("a"), local("a")} {
			call := stint.Call{Takes: []stint.Take{take}}
			if err := b.Decide(t.Context(), &call); err != nil || call.Results[0].At != stint.At(time.Now()) {
				t.Errorf("%+v, %v", call.Results, err)
			}
		}
	})
}

// TestChanges: operations without a policy fail with the store.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		d := stint.Decision{Allowed: true, At: now}
		for _, away := range []bool{false, true} {
			b.fake.be(refused)
			for _, op := range []stint.Op{stint.Refund, stint.Settle, stint.Reset} {
				take := local("a")
				take.Op, take.Undo = op, &d
				call := stint.Call{At: now, Takes: []stint.Take{take}}
				if err := b.Decide(t.Context(), &call); !errors.Is(err, errRefused) && !away || errors.Is(err, ErrAway) != away {
					t.Errorf("op %d: %v", op, err)
				}
			}
			b.fake.be(frozen)
			for range lateFailures {
				b.must()
			}
			b.away(true)
		}
	})
}

// TestUndo: a policy's decision is undone where it was made, even if the store is back, and the
// store's decision in the store.
func TestUndo(t *testing.T) {
	b := newBench(t, unhurried)
	b.fake.be(refused)
	call := stint.Call{At: now, Takes: []stint.Take{costs(2, local("a")), allow("b")}}
	if err := b.Decide(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	answered := call.Results
	b.fake.be(well())
	var first stint.Call
	first.At, first.Takes = now, []stint.Take{costs(3, allow("c"))}
	if err := b.Decide(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	asked := b.fake.asked.Load()
	call = stint.Call{At: now, Takes: []stint.Take{undone(costs(2, local("a")), answered[0]), undone(allow("b"), answered[1])}}
	if err := b.Decide(t.Context(), &call); err != nil || b.fake.asked.Load() != asked {
		t.Errorf("the store was asked, or: %v", err)
	}
	if want := (stint.Decision{Allowed: true, Degraded: true, Limit: 2, Remaining: 2, ResetAfter: time.Hour, At: now}); call.Results[0] != want || call.Results[1] != passed {
		t.Errorf("%+v", call.Results)
	}
	call.Takes = append(call.Takes, undone(costs(3, allow("c")), first.Results[0]))
	if err := b.Decide(t.Context(), &call); err != nil || b.fake.asked.Load() != asked+1 {
		t.Errorf("the store was not asked once, or: %v", err)
	}
	if d := call.Results[2]; d.Degraded || d.Remaining != 10 || d.Limit != 10 {
		t.Errorf("%+v", d)
	}
	b.fake.be(refused)
	if err := b.Decide(t.Context(), &call); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	call.Takes[0].Key = ""
	if err := b.Decide(t.Context(), &call); !errors.Is(err, stint.ErrNoKey) {
		t.Error(err)
	}
}

// TestSettleLocal: with a limit that counts answers, Local reserves, settles and gives back in this
// process.
func TestSettleLocal(t *testing.T) {
	hold := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour, Burst: 2, Reserve: true})
	b := newBench(t, unhurried)
	b.fake.be(refused)
	ask := stint.Take{Key: "a", Limit: hold, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: hold}}
	for i, op := range []stint.Op{stint.Settle, stint.Refund, stint.Settle} {
		call := stint.Call{At: now, Takes: []stint.Take{ask}}
		if err := b.Decide(t.Context(), &call); err != nil || !call.Results[0].Allowed {
			t.Fatal(i, call.Results, err)
		}
		after := undone(ask, call.Results[0])
		after.Op = op
		call = stint.Call{At: now, Takes: []stint.Take{after}}
		if err := b.Decide(t.Context(), &call); err != nil {
			t.Fatal(i, err)
		}
	}
	call := stint.Call{At: now, Takes: []stint.Take{ask}}
	if err := b.Decide(t.Context(), &call); err != nil || call.Results[0].Allowed {
		t.Error(call.Results, err)
	}
}

// TestReset: a reset also resets the local key; if the store fails, neither is reset.
func TestReset(t *testing.T) {
	b := newBench(t, unhurried)
	reset := local("a")
	reset.Op = stint.Reset
	ask := func() stint.Decision {
		b.fake.be(refused)
		call := stint.Call{At: now, Takes: []stint.Take{costs(2, local("a"))}}
		if err := b.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		return call.Results[0]
	}
	if d := ask(); !d.Allowed {
		t.Fatal(d)
	}
	call := stint.Call{At: now, Takes: []stint.Take{reset, allow("b")}}
	call.Takes[1].Op = stint.Reset
	if err := b.Decide(t.Context(), &call); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	if d := ask(); d.Allowed {
		t.Error("the share was reset though the key was not")
	}
	b.fake.be(well())
	if err := b.Decide(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	for _, d := range call.Results {
		if !d.Allowed || d.Degraded || d.Remaining != 10 {
			t.Errorf("%+v", d)
		}
	}
	if d := ask(); !d.Allowed {
		t.Error("the share was not reset")
	}
}

// TestLocalFails: an error of the local store is the error of the call.
func TestLocalFails(t *testing.T) {
	b := newBench(t, unhurried)
	b.fake.be(refused)
	call := stint.Call{At: now, Takes: []stint.Take{local("a"), forced(local("a"))}}
	if err := b.Decide(t.Context(), &call); !errors.Is(err, stint.ErrMixedLimits) {
		t.Error(err)
	}
}

// instant is a store that allows everything in no time.
type instant struct{}

func (instant) Decide(_ context.Context, call *stint.Call) error {
	call.Results = append(call.Results[:0], stint.Decision{Allowed: true})
	return nil
}

// BenchmarkDecide measures a store that needs no time and one in memory, each with and without a
// guard, which shows the cost of a guard while the store works; and one that is away.
func BenchmarkDecide(b *testing.B) {
	ctx := b.Context()
	bare := memory.New(memory.Options{})
	away := &fake{}
	away.be(refused)
	for _, bench := range []struct {
		name  string
		store stint.Store
	}{
		{"instant", instant{}},
		{"instant,guarded", New(instant{}, Options{})},
		{"memory", bare},
		{"memory,guarded", New(bare, Options{})},
		{"away", New(away, Options{Local: bare})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				call := stint.Call{At: now, Takes: []stint.Take{{Key: "a", Limit: hour, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: hour}}}}
				for pb.Next() {
					if err := bench.store.Decide(ctx, &call); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// TestAllocations: the guard allocates nothing for a call that the store answers.
func TestAllocations(t *testing.T) {
	ctx := t.Context()
	s := New(memory.New(memory.Options{Budget: 1}), Options{Timeout: time.Hour})
	call := stint.Call{At: now, Takes: []stint.Take{local("a")}}
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.Decide(ctx, &call); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The reason is complete even if the breaker has closed meanwhile.
func TestReason(t *testing.T) {
	b := newBench(t, unhurried)
	err := b.reason(nil)
	if !errors.Is(err, ErrAway) || strings.Contains(err.Error(), "%!") {
		t.Errorf("%v", err)
	}
}
