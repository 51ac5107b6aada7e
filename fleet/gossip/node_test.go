package gossip_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
	"stint/internal/testkit"
	"stint/store/storetest"
)

// alone is a node that meets nobody, as a store.
type alone struct{ node *gossip.Node }

func (s alone) Decide(_ context.Context, call *stint.Call) error {
	return s.node.Decide(call, stint.At(time.Now()))
}

func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		SameNumbers: true,
		New:         func(testing.TB) stint.Store { return alone{gossip.NewNode(gossip.Options{})} },
	})
}

// fleet are nodes and the messages between them.
type fleet struct {
	testing.TB
	r      *rand.Rand
	nodes  []*gossip.Node
	clocks []time.Duration // how far each is off
	now    stint.Instant
	air    []letter
	lost   float64
	twice  float64
	slow   time.Duration // the longest time that a message takes
	cut    map[[2]int]bool
	still  map[int]bool // nodes that stand still: what comes waits for them
}

type letter struct {
	at    stint.Instant
	from  int
	to    int
	bytes []byte
}

var began = stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func newFleet(t testing.TB, seed uint64, size int) *fleet {
	f := &fleet{TB: t, r: rand.New(rand.NewPCG(seed, 3)), now: began, cut: map[[2]int]bool{}, still: map[int]bool{}}
	for i := range size {
		f.add(gossip.NewNode(gossip.Options{Seed: seed*1000 + uint64(i) + 1}))
	}
	return f
}

// add adds a node that all others meet.
func (f *fleet) add(n *gossip.Node) {
	for _, other := range f.nodes {
		other.AddPeer(n.ID())
		n.AddPeer(other.ID())
	}
	f.nodes = append(f.nodes, n)
	f.clocks = append(f.clocks, 0)
}

func (f *fleet) clock(i int) stint.Instant { return f.now.Add(f.clocks[i]) }

// post sends messages of a node.
func (f *fleet) post(from int, list []gossip.Message) {
	for _, m := range list {
		for to, n := range f.nodes {
			if to == from || m.To != 0 && m.To != n.ID() {
				continue
			}
			times := 1
			if f.r.Float64() < f.twice {
				times++
			}
			for range times {
				if f.r.Float64() >= f.lost {
					f.air = append(f.air, letter{f.now.Add(time.Duration(f.r.Int64N(int64(f.slow) + 1))), from, to, m.Bytes})
				}
			}
		}
	}
}

// run lets time pass: every interval the nodes tell each other.
func (f *fleet) run(d time.Duration) {
	const step = 10 * time.Millisecond
	for end := f.now.Add(d); f.now < end; f.now = f.now.Add(step) {
		air := f.air
		f.air = nil
		for _, l := range air {
			switch {
			case l.at > f.now, f.still[l.to]:
				f.air = append(f.air, l)
			case !f.cut[[2]int{l.from, l.to}] && f.nodes[l.to] != nil:
				f.post(l.to, f.nodes[l.to].Receive(l.bytes, f.clock(l.to)))
			}
		}
		for i, n := range f.nodes {
			if n != nil && !f.still[i] && int64(f.now/stint.Instant(step.Microseconds()))%10 == int64(i%10) {
				f.post(i, n.Tick(f.clock(i)))
			}
		}
	}
}

// take asks a node and reports whether all takes pass.
func (f *fleet) take(i int, takes ...stint.Take) bool {
	f.Helper()
	call := stint.Call{Takes: takes}
	if err := f.nodes[i].Decide(&call, f.clock(i)); err != nil {
		f.Fatal(err)
	}
	d, _ := stint.Combine(call.Results)
	return d.Allowed
}

// split cuts the nodes below at off from the others, or heals.
func (f *fleet) split(at int, cut bool) {
	for i := range f.nodes {
		for j := range f.nodes {
			if (i < at) != (j < at) {
				f.cut[[2]int{i, j}] = cut
			}
		}
	}
}

// left returns how many units a node believes are left of a key.
func (f *fleet) left(i int, key stint.Key, l *stint.Limit) int64 {
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: l}}}
	if err := f.nodes[i].Decide(&call, f.clock(i)); err != nil {
		f.Fatal(err)
	}
	return call.Results[0].Remaining
}

// Whatever becomes of messages, in the end all nodes know the same, which is what was taken.
func TestTotals(t *testing.T) {
	testkit.OneGoroutine(t)
	day := stint.MustLimit(stint.Spec{Requests: 100000, Per: 24 * time.Hour})
	slow := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 24 * time.Hour, Burst: 10000})
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for seed := range uint64(rounds) {
		f := newFleet(t, seed, 2+int(seed%6))
		f.lost, f.twice = []float64{0, 0.05, 0.5}[seed%3], []float64{0, 0.3}[seed%2]
		f.slow = []time.Duration{0, 30 * time.Millisecond, 400 * time.Millisecond}[seed/2%3]
		for i := range f.clocks {
			f.clocks[i] = time.Duration(f.r.IntN(2400)-1200) * time.Second
		}
		f.run(500 * time.Millisecond)
		total := map[string]int64{}
		for range 300 {
			i, key, cost := f.r.IntN(len(f.nodes)), fmt.Sprint(f.r.IntN(5)), uint32(1+f.r.IntN(9))
			limit := []*stint.Limit{day, slow}[f.r.IntN(2)]
			name := key + limit.Algorithm().String()
			take := stint.Take{Key: stint.Key(key), Limit: limit, Cost: cost}
			switch f.r.IntN(12) {
			case 0:
				take.Op = stint.Force
			case 2:
				take.Op = stint.AskAtMost // of which all passes
			case 1:
				if f.r.IntN(2) == 0 {
					f.split(1+f.r.IntN(len(f.nodes)-1), true)
				} else {
					f.split(1, false)
					clear(f.cut)
				}
			}
			if f.take(i, take) {
				total[name] += int64(cost)
			}
			if f.r.IntN(3) == 0 {
				f.run(time.Duration(f.r.IntN(40)) * time.Millisecond)
			}
		}
		clear(f.cut)
		f.lost = 0
		f.run(30 * time.Second)
		for _, limit := range []*stint.Limit{day, slow} {
			for key := range 5 {
				want := limit.Capacity() - total[fmt.Sprint(key)+limit.Algorithm().String()]
				for i := range f.nodes {
					if got := f.left(i, stint.Key(fmt.Sprint(key)), limit); got != want {
						t.Fatalf("seed %d, key %d, %v: node %d of %d believes %d are left, %d are", seed, key, limit.Algorithm(), i, len(f.nodes), got, want)
					}
				}
			}
		}
	}
}
