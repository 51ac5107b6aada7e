package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// naive is a process that decides alone, and notes what it took.
type naive struct {
	*host
	states map[stint.Key]*stint.State
	took   map[stint.Key]uint32
}

func newNaive(p *host) naive {
	return naive{p, map[stint.Key]*stint.State{}, map[stint.Key]uint32{}}
}

func (n *naive) held() int64 { return 0 }

func (n *naive) decide(q *request) {
	l := write(&q.call, 0)
	(&store{ledger: plain, states: n.states}).decide(l, n.w.now)
	q.call.Results = l.call.Results
	n.w.answerLocal(q)
	if q.Cost > 0 && l.call.Results[0].Allowed {
		n.took[l.call.Takes[0].Key] += q.Cost
	}
}

// overwriting is a process that decides alone and reports to the store, with the usual mistakes: an
// answer of the store replaces all that it has, also takes since its report; a report that fails is
// dropped; and a report that arrives twice counts twice.
type overwriting struct{ naive }

func newOverwriting(p *host) node {
	return &overwriting{newNaive(p)}
}

func (n *overwriting) tick() time.Duration {
	for key, units := range n.took {
		delete(n.took, key)
		n.put(&stint.Call{Takes: []stint.Take{{Key: key, Limit: n.w.Limit, Cost: units, Op: stint.Force}}}, func(answer *message, _ time.Duration, err error) {
			if err == nil {
				n.states[key] = new(n.w.Limit.ForStores().StateFromDecision(&answer.call.Results[0]))
			}
		})
	}
	return 100 * time.Millisecond
}

// adding is a process that decides alone and reports to the others, with the usual mistake: it
// sends the takes since the last report and not their total, and the receiver adds them. A lost
// report is never made up for, and one that arrives twice counts twice.
type adding struct{ naive }

func newAdding(p *host) node {
	return &adding{newNaive(p)}
}

func (n *adding) tick() time.Duration {
	for _, other := range n.w.hosts {
		if other == n.host {
			continue
		}
		for key, units := range n.took {
			n.travel(&link{}, other, func() {
				is := other.node.(*adding)
				l := write(&stint.Call{Takes: []stint.Take{{Key: key, Limit: n.w.Limit, Cost: units, Op: stint.Force}}}, 0)
				(&store{ledger: plain, states: is.states}).decide(l, n.w.now)
			})
		}
	}
	clear(n.took)
	return 100 * time.Millisecond
}

func (n *adding) used() int64 { return used(n.w, n.states[keyOf(0)]) }

// used returns how many units of a bucket are used, above its limit too.
func used(w *world, st *stint.State) int64 {
	d := w.Limit.Test(st, began.Add(w.now), 0)
	return int64(d.ResetAfter.Seconds() * float64(w.Limit.Spec().Requests) / w.Limit.Spec().Per.Seconds())
}

// through runs a history, and also returns by how many units the nodes' counts differ at the end.
func through(o Options) (Result, int64) {
	w := newWorld(&o)
	var all []int64
	w.at(o.Length, func() {
		for _, p := range w.hosts {
			switch is := p.node.(type) {
			case *gossipNode:
				all = append(all, is.usedUnits(0))
			case *adding:
				all = append(all, is.used())
			}
		}
	})
	w.run()
	if all == nil {
		return w.result(), 0
	}
	return w.result(), slices.Max(all) - slices.Min(all)
}

// TestNaive: a process that drops reports the store did not acknowledge, or never makes up for lost
// ones, lets more pass than the bound. A process that counts a report twice lets too little pass,
// or its counts differ from the others' without a bound. The real modes do neither, in the same
// histories.
func TestNaive(t *testing.T) {
	testkit.OneGoroutine(t)
	const nodes = 5
	for _, row := range []struct {
		name        string
		mode        Mode
		wrong       func(p *host) node
		lost, twice float64
		length      time.Duration
	}{
		{"hits overwritten, messages lost", Eventual, newOverwriting, 0.2, 0, 40 * time.Second},
		{"hits overwritten, messages repeated", Eventual, newOverwriting, 0, 0.5, 20 * time.Second},
		{"hits added, messages lost", Gossip, newAdding, 0.2, 0, 200 * time.Second},
		{"hits added, messages repeated", Gossip, newAdding, 0, 0.5, 20 * time.Second},
	} {
		o := Options{
			Seed: 1, Mode: row.mode, Nodes: nodes, Keys: 1, Length: row.length,
			Network: Network{Least: time.Millisecond, Most: 3 * time.Millisecond, Lost: row.lost, Twice: row.twice},
			Limit:   stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 200, Per: time.Second, Burst: 50}),
			Demand: func(r *rand.Rand, ask func(Take)) {
				for at := time.Duration(0); at < row.length; at += time.Duration(r.ExpFloat64() / 400 * float64(time.Second)) {
					ask(Take{At: at, Node: r.IntN(nodes), With: -1, Cost: 1})
				}
			},
		}
		right, agree := through(o)
		bound := o.Bound(&right)
		o.start = row.wrong
		wrong, disagree := through(o)
		t.Logf("%s: S %v, E %d of %d, %.1f %% of one bucket, nodes %d apart; wrong E %d, %.1f %%, %d apart", row.name, right.Stale,
			right.Over, bound, 100*right.Utilisation(), agree, wrong.Over, 100*wrong.Utilisation(), disagree)
		if right.Over > bound || right.Utilisation() < 0.97 || agree > 60 {
			t.Errorf("%s: E %d of %d, %.1f %% of one bucket, nodes %d apart", row.name, right.Over, bound, 100*right.Utilisation(), agree)
		}
		if wrong.Over <= bound && wrong.Utilisation() > 0.9 && disagree < 500 {
			t.Errorf("%s: the mistake is not found out", row.name)
		}
	}
}
