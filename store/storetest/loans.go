package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/storetest/model"
)

// leased are the terms of a rule whose units are lent.
var leased = &stint.Terms{Coordination: stint.Leased}

// loans: a store lends as stint.StoreLimit does on a state, whatever nodes report, repeat and leave
// out, alone and in calls of several takes; and takes without a loan respect what is lent. The same
// holds while some nodes have other numbers.
func loans(t *testing.T, o Options) {
	if !o.Lends {
		return
	}
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: time.Second, Burst: 80}),
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 10_000}),
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Burst: 100}),
		stint.MustLimit(stint.Spec{Requests: 100, Per: 3 * time.Second}),
		stint.MustLimit(stint.Spec{Requests: 500, Calendar: stint.Day}),
		stint.MustLimit(stint.Spec{Requests: 100, Per: 3 * time.Second, FromFirst: true}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 20, Per: time.Second}), // never lent
	} {
		t.Run(model.Name(limit), func(t *testing.T) {
			r := random(t)
			rounds := 20
			if o.Slow {
				rounds /= 4
			}
			for range rounds {
				lendRound(start(t, o), r, limit)
			}
			for range rounds {
				lendRound(start(t, o), r, append(reloaded(limit), limit)...)
			}
		})
	}
	t.Run("asks", func(t *testing.T) { asks(t, o) })
	t.Run("recalls", func(t *testing.T) { recalls(t, o) })
}

// recalls: nodes get nothing for a short time after a take for which too little was left, also if
// meanwhile the window ends and all that was taken in the next one is given back.
func recalls(t *testing.T, o Options) {
	s := start(t, o)
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Requests: 100, Per: 3 * time.Second}),
		stint.MustLimit(stint.Spec{Requests: 100, Per: 3 * time.Second, FromFirst: true}),
	} {
		key := stint.Key(model.Name(limit))
		ask := func(at stint.Instant, node uint64, cost uint32) stint.Loan {
			a := stint.Loan{Node: node, Seq: 1, Want: 10}
			s.decide(at, stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: leased, Loan: &a}})
			return a
		}
		next := noon.Add(s.take(noon, key, limit, 90).ResetAfter)
		if a := ask(next-50_000, 1, 20); !a.Recall {
			t.Errorf("%s: a denied take of 20 recalls nothing: %+v", key, a)
		}
		d := s.take(next, key, limit, 2)
		s.decide(next, stint.Take{Key: key, Limit: limit, Op: stint.Refund, Cost: 2, Undo: &d})
		if a := ask(next+50_000, 2, 0); a.Grant != 0 || !a.Recall {
			t.Errorf("%s: in the next window the next node gets %+v", key, a)
		}
	}
}

// asks: a node that asks when a window is over counts as active in the next one, whether anything
// is charged there or not: the next node that asks leaves it as much.
func asks(t *testing.T, o Options) {
	s := start(t, o)
	idle := stint.MustLimit(stint.Spec{Requests: 1_000_000, Per: time.Hour})
	for _, spec := range []stint.Spec{
		{Requests: 100, Per: 3 * time.Second},
		{Requests: 100, Per: 3 * time.Second, FromFirst: true},
		{Requests: 100, Calendar: stint.Day},
	} {
		limit := stint.MustLimit(spec)
		spec.Requests = 300
		for _, test := range []struct {
			name  string
			old   *stint.Limit // limit in the window that is over
			cost  uint32       // cost of the first ask
			grant uint32       // grant of the next ask, which takes 60: a quarter of the rest
		}{
			{"it looks", limit, 0, 10},
			{"it takes", limit, 1, 9},
			{"it is denied", limit, 200, 10},
			{"it looks, under new numbers", stint.MustLimit(spec), 0, 10},
			{"it takes, under new numbers", stint.MustLimit(spec), 1, 9},
			{"it is denied, under new numbers", stint.MustLimit(spec), 200, 10},
		} {
			for _, company := range [][]stint.Take{nil, {{Key: "idle", Limit: idle, Cost: 1}}} {
				key := stint.Key(fmt.Sprint(model.Name(limit), ": ", test.name, " with ", len(company)))
				ask := func(at stint.Instant, node uint64, cost, want uint32) *stint.Loan {
					a := &stint.Loan{Node: node, Seq: 1, Want: want}
					take := stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: leased, Loan: a}}
					s.decide(at, append([]stint.Take{take}, company...)...)
					return a
				}
				s.take(noon, key, test.old, 90)
				next := noon.Add(24 * time.Hour)
				ask(next, 1, test.cost, 0)
				if a := ask(next.Add(200*time.Millisecond), 2, 60, 50); a.Grant != test.grant {
					t.Errorf("%s: the next gets %d, want %d", key, a.Grant, test.grant)
				}
			}
		}
	}
}

// reloaded returns limits that differ from limit in their numbers: lower, higher, and too low to be
// lent.
func reloaded(limit *stint.Limit) []*stint.Limit {
	var others []*stint.Limit
	for _, part := range []float64{0.3, 2, 0.01} {
		spec := limit.Spec()
		spec.Requests = uint32(max(1, part*float64(spec.Requests)))
		spec.Burst = uint32(part * float64(spec.Burst))
		others = append(others, stint.MustLimit(spec))
	}
	return others
}

// borrower is a history of loans of one key, and the state that it should have.
type borrower struct {
	r     *rand.Rand
	state transaction.Record
	began stint.Instant // the store's epoch
	asks  []stint.Loan
	seq   map[uint64]uint64
	last  stint.Decision // the last take without a loan that passed, and its cost
	cost  uint32
}

func lendRound(s tester, r *rand.Rand, limits ...*stint.Limit) {
	s.Helper()
	b := &borrower{r: r, seq: map[uint64]uint64{}}
	idle := stint.MustLimit(stint.Spec{Requests: 1_000_000, Per: time.Hour})
	now := noon
	for step := range 60 {
		now += stint.Instant(pick(r, 0, 1, 3334, 20_000, r.IntN(300_000), r.IntN(300_000)))
		if r.IntN(20) == 0 {
			now += 2_400_000
		}
		limit := pick(r, limits...)
		cost := uint32(pick(r, 0, 0, 1, 2, 5, r.IntN(40), r.IntN(100)))
		take := stint.Take{Key: "k", Limit: limit, Cost: cost, Independent: r.IntN(2) == 0}
		if r.IntN(4) == 0 {
			b.takeWithoutLoan(s, now, take, len(limits) == 1)
			continue
		}
		a := b.ask()
		told := a
		take.Handling = &stint.Handling{Terms: leased, Loan: &told}
		takes := []stint.Take{take}
		if r.IntN(3) == 0 {
			takes = append(takes, stint.Take{Key: "idle", Limit: idle, Cost: 1})
		}
		got := s.decide(now, takes...)[0]
		b.began = told.Began
		epoch := stint.Epoch{Began: told.Began}
		b.state.Report(limit, now, &a, epoch)
		want := b.state.Take(limit, now, uint64(cost))
		b.state.Lend(limit, now, &a, uint64(cost), &want)
		if got != want || told != a || told.Began == 0 {
			s.Fatalf("step %d: a take of %d gets %+v\nand %+v, want\n%+v\nand %+v", step, cost, got, told, want, a)
		}
	}
	limit := pick(r, limits...)
	reset := s.decide(now, stint.Take{Key: "k", Limit: limit, Op: stint.Reset})[0]
	b.state.Reset(limit, now)
	if want := b.state.Test(limit, now, 0); reset != want {
		s.Fatalf("a reset leaves %+v, want %+v", reset, want)
	}
}

// takeWithoutLoan decides a take without a loan: one that asks or, if all nodes have the same numbers,
// also one that is forced or gives back.
func (b *borrower) takeWithoutLoan(s tester, now stint.Instant, take stint.Take, same bool) {
	s.Helper()
	if same {
		take.Op = pick(b.r, stint.Ask, stint.Ask, stint.Force, stint.Refund)
	}
	switch {
	case take.Op != stint.Refund:
	case b.last.At > 0 && b.r.IntN(2) == 0:
		take.Cost, take.Undo = b.cost, &b.last
	default:
		take.Cost *= uint32(pick(b.r, 1, 10)) // also more than was used
	}
	want := b.state.Apply(take.Op, take.Limit, now, uint64(take.Cost), take.Undo)
	if got := s.decide(now, take)[0]; got != want {
		s.Fatalf("a take of %d, op %d, undo %v, gets\n%+v, want\n%+v", take.Cost, take.Op, take.Undo, got, want)
	}
	if take.Op == stint.Ask && want.Allowed {
		b.last, b.cost = want, take.Cost
	}
}

// ask returns a node's next loan request: a new one, or a repeated one.
func (b *borrower) ask() stint.Loan {
	if len(b.asks) > 0 && b.r.IntN(5) == 0 {
		return pick(b.r, b.asks...)
	}
	a := stint.Loan{
		Node: b.r.Uint64N(4), Epoch: b.began,
		Kept: uint32(b.r.IntN(20)), Home: uint32(b.r.IntN(10)), Want: uint32(b.r.IntN(60)),
	}
	b.seq[a.Node]++
	a.Seq = b.seq[a.Node]
	b.asks = append(b.asks, a)
	return a
}
