package redis

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memory"
)

// unit is a group of a batch: decided all or none.
type unit struct {
	batch *batch
	group *group
}

// decided returns the memory store's decisions for a unit.
func (u unit) decided(t *testing.T, truth stint.Store, at stint.Instant) []stint.Decision {
	t.Helper()
	call := stint.Call{At: at}
	for _, p := range u.parts() {
		call.Takes = append(call.Takes, stint.Take{Key: stint.Key(p.name), Limit: p.Limit, Cost: uint32(p.cost)})
	}
	if err := truth.Decide(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results
}

func (u unit) parts() []part { return u.batch.parts[u.group.first:u.group.end] }

// Takes leave together only if the same scripts may decide them: one that looks for a lost epoch never leaves with one that does not.
func TestOnlySameScriptsTravelTogether(t *testing.T) {
	s, err := Open(testkit.StartRedis(t).URL(), Options{})
	testkit.Must(t, err)
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute, Burst: 100})
	take := func(key stint.Key, loan *stint.Loan) stint.Take {
		return stint.Take{Key: key, Limit: limit, Cost: 1, Handling: &stint.Handling{Loan: loan}}
	}
	testkit.Must(t, s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{take("first", new(stint.Loan))}})) // the store learns the epoch
	wait := func(take stint.Take) *waiter {
		b := &batch{only: -1}
		testkit.Must(t, b.gather(s, &stint.Call{Takes: []stint.Take{take}}))
		if !b.isQuick() {
			t.Fatalf("quick.lua does not decide %s", take.Key)
		}
		return &waiter{ctx: t.Context(), batch: b, kind: byQuick}
	}
	c := s.commits[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting,
		wait(take("strict", nil)), wait(take("used up after a loss", new(stint.Loan))),
		wait(take("kept", &stint.Loan{KeptAfterLoss: true})), wait(take("used up after a loss, too", new(stint.Loan))))
	for i, group := range [][]*waiter{c.groupLocked(), c.groupLocked()} {
		for _, w := range group {
			if checks := w.batch.process != ""; len(group) != 2 || checks != (i == 1) {
				t.Errorf("group %d has %d takes, and %s checks for a loss: %v", i, len(group), w.batch.parts[0].name, checks)
			}
		}
	}
}

// Batches that leave together are decided as if one had come after the other: first the takes by
// themselves, key by key, then those that are decided with others; and a later take of a call is
// decided later. A key for which another caller has other numbers is left to decide.lua, and so is
// everything that is decided with it.
func TestTravelTogether(t *testing.T) {
	server := testkit.StartRedis(t)
	s, err := Open(server.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client, err := s.links[0].Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limits := []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Second, Burst: 9}),
		stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 9, MaxWait: 500 * time.Millisecond}),
		stint.MustLimit(stint.Spec{Requests: 8, Per: time.Second}),
	}
	renumbered := stint.MustLimit(stint.Spec{Requests: 9, Per: time.Second})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	truth := memory.New(memory.Options{})
	at := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var alone, rode, left int
	for round := range 300 {
		at += stint.Instant(r.Int64N(900_000))
		var group []*waiter
		for range 1 + r.IntN(12) {
			call := stint.Call{At: at}
			for n := range 1 + r.IntN(3) {
				which := r.IntN(len(limits))
				take := stint.Take{Key: stint.Key(fmt.Sprint(which, " of ", r.IntN(3))), Limit: limits[which], Cost: uint32(r.IntN(3)), Independent: r.IntN(3) == 0}
				if n == 0 && which == 2 && r.IntN(20) == 0 {
					take.Limit = renumbered
				}
				call.Takes = append(call.Takes, take)
			}
			b := &batch{only: -1}
			if b.gather(s, &call) == nil && b.isQuick() {
				group = append(group, &waiter{batch: b, kind: byQuick})
			}
		}
		if len(group) == 0 {
			continue
		}
		if err := (roundTrip{client: client, renew: r.IntN(4) == 0}).send(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		var first, then []unit
		for _, p := range group {
			if p.err != nil {
				t.Fatal(p.err)
			}
			p.batch.readQuick()
			for i := range p.batch.groups {
				u := unit{p.batch, &p.batch.groups[i]}
				switch {
				case !u.group.done:
					left++
				case len(u.parts()) == 1 && u.parts()[0].merged < 0:
					first = append(first, u)
				default:
					then = append(then, u)
				}
			}
		}
		alone, rode = alone+len(first), rode+len(then)
		for _, u := range append(first, then...) {
			for i, want := range u.decided(t, truth, at) {
				if got := u.parts()[i].result; !reflect.DeepEqual(got, want) {
					t.Fatalf("round %d, %s: %+v, want %+v", round, u.parts()[i].name, got, want)
				}
			}
		}
	}
	t.Logf("%d takes by themselves, %d calls of several, %d left", alone, rode, left)
	if alone == 0 || rode == 0 || left == 0 {
		t.Error("not all ways were gone")
	}
}
