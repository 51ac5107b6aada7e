package sim_test

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/fleet/sim"
	"stint/internal/testkit"
)

// busy is the load of the published figures: 10,000 a second may pass, on 20 nodes.
var busy = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 10_000})

// steady asks so often a second of all nodes alike, or, where jump is set, of one node
// after the other.
func steady(nodes int, rate float64, length, jump time.Duration) func(*rand.Rand, func(sim.Take)) {
	return func(r *rand.Rand, ask func(sim.Take)) {
		hot := 0
		next := jump
		for at := time.Duration(0); at < length; at += time.Duration(r.ExpFloat64() / rate * float64(time.Second)) {
			node := r.IntN(nodes)
			if jump > 0 {
				if at >= next {
					next += jump
					hot = r.IntN(nodes)
				}
				node = hot
			}
			ask(sim.Take{At: at, Node: node, Cost: 1, With: -1})
		}
	}
}

// TestFigures are the figures of docs/coordination-proof.md: on 20 nodes no window sees more than
// it may, and few takes leave their node.
func TestFigures(t *testing.T) {
	length := 15 * time.Second
	share := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 50})
	for _, row := range []struct {
		name        string
		rate        float64
		jump        time.Duration
		share       *stint.Limit
		utilisation float64
		left        float64
	}{
		{"half the rate", 5_000, 0, nil, 0.98, 0.02},
		{"the rate", 10_000, 0, nil, 0.98, 0.02},
		{"half as much again", 15_000, 0, nil, 0.97, 0.02}, // a quarter of the burst may be left
		{"ten times the rate", 100_000, 0, nil, 0.98, 0.02},
		{"half the rate, jumping", 5_000, 300 * time.Millisecond, nil, 0.95, 0.02},
		{"the rate, jumping", 10_000, 300 * time.Millisecond, nil, 0.95, 0.02},
		{"half as much again, jumping", 15_000, 300 * time.Millisecond, nil, 0.95, 0.02},
		{"the rate, a tenth divided", 10_000, 0, share, 0.98, 0.02},
		{"half as much again, a tenth divided", 15_000, 0, share, 0.96, 0.02},
		{"the rate, jumping, a tenth divided", 10_000, 300 * time.Millisecond, share, 0.93, 0.02},
		{"half as much again, jumping, a tenth divided", 15_000, 300 * time.Millisecond, share, 0.88, 0.02},
	} {
		if testing.Short() && (row.rate != 10_000 || row.share != nil) {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			res := sim.Run(sim.Options{
				Seed: 1, Nodes: 20, Limit: busy, Share: row.share, Keys: 1, Length: length, Demand: steady(20, row.rate, length, row.jump),
				Network: sim.Network{Least: 200 * time.Microsecond, Most: 800 * time.Microsecond},
			})
			t.Logf("E %d, utilisation %.2f %%, %.2f %% left the node: %d calls and %d messages for %d takes",
				res.Over, 100*res.Utilisation(), 100*res.StoreShare(), res.Calls, res.Messages, res.Asked)
			if res.Over > 0 || res.Utilisation() < row.utilisation || res.StoreShare() > row.left {
				t.Errorf("want E 0, %.0f %% and %.0f %%", 100*row.utilisation, 100*row.left)
			}
		})
	}
}

// What make long raises.
var (
	histories = flag.Int("sim.histories", 2000, "how many histories TestRandomFaults goes through; a hundredth of them in short mode")
	takes     = flag.Int("sim.takes", 2000, "how many takes each has")
	first     = flag.Uint64("sim.seed", 1, "seed of the first history")
)

// each goes through histories on all processors.
func each(t *testing.T, n int, history func(i int)) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				history(int(i))
			}
		})
	}
	all.Wait()
}

// leasedHistory returns the history of a seed. Those of the short form are fewer and longer.
func leasedHistory(seed uint64) sim.Options {
	n := *takes
	if testing.Short() {
		n *= 5
	}
	if seed%3 == 1 && testing.Short() || seed%3 == 0 {
		return sim.AttackLeases(seed, n)
	}
	return sim.RandomFaults(sim.Leased, seed, n, int(seed%7))
}

// sum is what many histories come to. Its mu guards all of it.
type sum struct {
	mu sync.Mutex
	sim.Result
	strangers int // histories in which one came first
}

func (s *sum) add(r *sim.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Admitted += r.Admitted
	s.Central += r.Central
	s.Local += r.Local
	s.Asked += r.Asked
	s.strangers += min(1, r.UnseenLosses)
	to, from := reflect.ValueOf(&s.Seen).Elem(), reflect.ValueOf(r.Seen)
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

// TestRandomFaults: whatever becomes of nodes, messages, clocks and the store, nobody ever gets
// more than the limit. And all of it happens.
func TestRandomFaults(t *testing.T) {
	n := *histories
	if testing.Short() {
		n = max(1, n/100)
	}
	var all sum
	each(t, n, func(i int) {
		seed := *first + uint64(i)
		o := leasedHistory(seed)
		res := sim.Run(o)
		all.add(&res)
		if res.Over > int64(res.UnseenLosses)*o.Limit.Capacity() {
			t.Errorf("E %d in the history of seed %d (-args -sim.seed=%d -sim.histories=1): %d nodes, %+v, %+v, %+v",
				res.Over, o.Seed, o.Seed, o.Nodes, o.Limit.Spec(), o.Network, o.Faults)
		}
	})
	t.Logf("%d histories from seed %d: %d takes, %d of them decided by nodes; %d units passed, %d would have passed one bucket; a stranger came first in %d; %+v",
		n, *first, all.Asked, all.Local, all.Admitted, all.Central, all.strangers, all.Seen)
	if all.strangers > n/20 && all.strangers > 3 {
		t.Errorf("the bound was not E = 0 in %d of %d histories", all.strangers, n)
	}
	if n >= 1000 {
		atLeast(t, &all.Seen, n/50, "Idled", "Returned") // see TestIdle
	}
}

// TestKeptAfterLoss: with after_loss: kept a store that lost its data admits its limit once more, and
// no more than that, whatever else happens. A store that only starts again admits nothing more.
func TestKeptAfterLoss(t *testing.T) {
	testkit.OneGoroutine(t)
	n := max(1, *histories/4)
	if testing.Short() {
		n = max(1, n/25)
	}
	var all sum
	var above, restarted atomic.Int64
	each(t, n, func(i int) {
		seed := *first + uint64(i)
		o := leasedHistory(seed)
		if seed%2 == 0 { // a clean restart: the server is another one, and lost nothing
			o.Faults = slices.DeleteFunc(o.Faults, func(f sim.Fault) bool { return f.Kind == sim.Flush })
			for i := range o.Faults {
				if o.Faults[i].Kind == sim.Switch {
					o.Faults[i].For = -1
					restarted.Add(1)
				}
			}
		}
		o.KeptAfterLoss = true
		res := sim.Run(o)
		all.add(&res)
		if res.Over > 0 {
			above.Add(1)
		}
		if most := o.BoundKept(); res.Over > most {
			t.Errorf("E %d, at most %d, in the history of seed %d (-args -sim.seed=%d -sim.histories=1): %d nodes, %+v, %+v, %+v",
				res.Over, most, o.Seed, o.Seed, o.Nodes, o.Limit.Spec(), o.Network, o.Faults)
		}
	})
	t.Logf("%d histories, %d with E above 0, %d restarts without a loss: %d takes, %d of them decided by nodes; %d units passed, %d would have passed one bucket; %+v",
		n, above.Load(), restarted.Load(), all.Asked, all.Local, all.Admitted, all.Central, all.Seen)
}

// TestDivided: with a share for each node, no more than the limit passes either, however long nodes
// are cut off from the store and whichever of them end, and the shares continue to work.
func TestDivided(t *testing.T) {
	testkit.OneGoroutine(t)
	n := max(1, *histories/8)
	if testing.Short() {
		n = max(1, n/20)
	}
	var all sum
	var own atomic.Int64
	each(t, n, func(i int) {
		seed := *first + uint64(i)
		o, fast := sim.Divided(seed, *takes, int(seed%7))
		res := sim.Run(o)
		all.add(&res)
		own.Add(int64(res.Own))
		if res.Over > fast+int64(res.UnseenLosses)*o.Limit.Capacity() {
			t.Errorf("E %d in the history of seed %d (-args -sim.seed=%d -sim.histories=1): %d nodes, %+v, %+v each, %+v, %+v",
				res.Over, o.Seed, o.Seed, o.Nodes, o.Limit.Spec(), o.Share.Spec(), o.Network, o.Faults)
		}
	})
	t.Logf("%d histories: %d takes, %d of them charged to what a node has for itself; %d units passed, %d would have passed one bucket",
		n, all.Asked, own.Load(), all.Admitted, all.Central)
	if own.Load() == 0 {
		t.Error("no node ever spent its own part")
	}
}

// TestCutOff: nodes that never reach the store pass their parts, all of it and no more.
func TestCutOff(t *testing.T) {
	testkit.OneGoroutine(t)
	const nodes, length = 4, 20 * time.Second
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000}),
		stint.MustLimit(stint.Spec{Requests: 1000, Per: time.Second}),
	} {
		spec := limit.Spec()
		spec.Requests /= 10 * nodes
		if spec.Burst > 0 {
			spec.Burst /= 10 * nodes
		}
		o := sim.Options{
			Seed: 1, Nodes: nodes, Limit: limit, Share: stint.MustLimit(spec), Keys: 1, Length: length, Demand: steady(nodes, 2000, length, 0),
			Network: sim.Network{Least: 200 * time.Microsecond, Most: 800 * time.Microsecond},
		}
		for node := range nodes {
			o.Faults = append(o.Faults, sim.Fault{Kind: sim.Cut, Node: node, For: 2 * length})
		}
		res := sim.Run(o)
		least := int64(length.Seconds()-1) * 95 // of a tenth of the rate, all nodes together
		t.Logf("%v: %d of %d passed, E %d", limit.Algorithm(), res.Admitted, res.Asked, res.Over)
		if res.Over > 0 || res.Admitted < least || res.Admitted > int64(length.Seconds()+1)*100 {
			t.Errorf("%v: %d passed in %v without a store, want at least %d and at most a tenth of the rate; E %d", limit.Algorithm(), res.Admitted, length, least, res.Over)
		}
	}
}

// atLeast wants everything to have been seen so often, but for what cannot be.
func atLeast(t *testing.T, seen *sim.Seen, least int, never ...string) {
	t.Helper()
	v := reflect.ValueOf(*seen)
	for i := range v.NumField() {
		if v.Field(i).Int() < int64(least) && !slices.Contains(never, v.Type().Field(i).Name) {
			t.Errorf("%s was seen %d times, want %d at least", v.Type().Field(i).Name, v.Field(i).Int(), least)
		}
	}
}

// The same seed is the same history.
func TestRunRepeats(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for _, mode := range []sim.Mode{sim.Leased, sim.Gossip, sim.Asking, sim.Eventual} {
		for seed := range seeds {
			if a, b := sim.Run(sim.RandomFaults(mode, seed, 500, 4)), sim.Run(sim.RandomFaults(mode, seed, 500, 4)); a != b {
				t.Errorf("%v, seed %d: %+v, and again %+v", mode, seed, a, b)
			}
		}
	}
}

// A store whose own clock leaps forward gives out what it believes to have come in
// meanwhile, and what was lent besides: no more.
func TestLeap(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		o := sim.RandomFaults(sim.Leased, seed, 1000, 0)
		if o.Limit.Algorithm() != stint.TokenBucket {
			continue
		}
		spec := o.Limit.Spec()
		leap := time.Duration(seed+1) * 250 * time.Millisecond
		o.Faults = []sim.Fault{{At: o.Length / 2, Kind: sim.Leap, For: leap}}
		most := min(int64(spec.Burst), int64(leap.Seconds()*float64(spec.Requests))+1) + int64(spec.Burst)/stint.LeasePart
		if res := sim.Run(o); res.Over > most {
			t.Errorf("seed %d: a leap of %v let pass %d more, want %d at most", seed, leap, res.Over, most)
		}
	}
}
