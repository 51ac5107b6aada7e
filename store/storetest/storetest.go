// Package storetest is the one suite that every store passes: it holds a store to
// what stint.Store promises and to the traces, decision by decision.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Options{
//			New: func(testing.TB) stint.Store { return memory.New(memory.Options{}) },
//		})
//	}
//
// Nearly all calls fix their time (stint.Call.At), so a run says the same on a slow
// machine as on a fast one.
package storetest

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
)

var (
	seedFlag      = flag.Uint64("storetest.seed", 0, "seed of the random histories, as a failure printed it; 0: another one each run")
	historiesFlag = flag.Int("storetest.histories", 200, "how many random histories; a tenth where a decision leaves the process")
	roundsFlag    = flag.Int("storetest.rounds", 3, "how often one key is contended for, by 64 goroutines; the long run is 100")
	triesFlag     = flag.Int("storetest.tries", 20_000, "how often one key is tried in each round; the long run is 1000000")
)

// Options say how to make the store and, as data, where stores may differ.
type Options struct {
	// New returns an empty store that shares nothing with others. What has to be
	// closed is left to t.Cleanup.
	New func(t testing.TB) stint.Store

	// Backwards says that a call whose time lies before that of an earlier one is
	// answered exactly as a stint.State would. Where it is false such a call may be
	// answered more strictly, and is not asked.
	Backwards bool

	// Scattered says that the keys of a call may lie on several servers: a call then
	// need not see all of them at one moment, where calls collide a place in a leaky
	// bucket may pass unused, and who leans on others and is denied may be told to wait
	// also for the debt of that denial. Of a key whose numbers have just changed it need not
	// know when the last request was, so that beside another denial a take that min_interval
	// denies may be shown as one that would pass.
	Scattered bool

	// Upright says that what is leaned on is kept elsewhere than other keys: then the suite
	// has nobody lean.
	Upright bool

	// OneTable says that all who ask the store hold the same numbers of a limit, which change
	// for all at once, as in one process: then the suite has nobody ask with others.
	OneTable bool

	// Lends says that the store lends units of keys to nodes, see stint.Loan.
	Lends bool

	// Slow says that a decision leaves the process: contention and random histories
	// are a tenth as long.
	Slow bool
}

// Run puts a store through the whole suite, each part under its own name.
func Run(t *testing.T, o Options) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, Options)
	}{
		{"Traces", traces},
		{"Differential", differential},
		{"Differences", differences},
		{"Clocks", clocks},
		{"Contention", contention},
		{"Together", together},
		{"TogetherRandom", togetherRandom},
		{"Snapshot", snapshot},
		{"Independent", apart},
		{"Ops", ops},
		{"Reservations", reservations},
		{"Borrows", leans},
		{"Loans", loans},
		{"Edges", edges},
		{"Expiry", expiry},
		{"Carry", carried},
		{"Reload", reload},
		{"Errors", errorsOf},
		{"Keys", keys},
		{"Context", contexts},
		{"Results", results},
		{"OwnClock", ownClock},
	} {
		if part.name == "Borrows" && o.Upright || (part.name == "Carry" || part.name == "Reload") && o.OneTable ||
			part.name == "Differences" && !o.Backwards {
			continue
		}
		t.Run(part.name, func(t *testing.T) { part.run(t, o) })
	}
}

// noon is the time of most calls: inside of windows, blocks and steps.
var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 7, 123457000, time.UTC))

// tester asks a store and ends the test where it cannot answer.
type tester struct {
	testing.TB
	stint.Store
}

// start returns a new store to ask.
func start(t testing.TB, o Options) tester {
	t.Helper()
	return tester{t, o.New(t)}
}

// decide asks for several takes at once.
func (s tester) decide(at stint.Instant, takes ...stint.Take) []stint.Decision {
	s.Helper()
	call := stint.Call{At: at, Takes: takes}
	if err := s.Decide(context.Background(), &call); err != nil {
		s.Fatal(err)
	}
	if len(call.Results) != len(takes) {
		s.Fatalf("%d results for %d takes", len(call.Results), len(takes))
	}
	return call.Results
}

// take asks for one.
func (s tester) take(at stint.Instant, key stint.Key, limit *stint.Limit, cost uint32) stint.Decision {
	s.Helper()
	return s.decide(at, stint.Take{Key: key, Limit: limit, Cost: cost})[0]
}

// peek looks at one key.
func (s tester) peek(at stint.Instant, key stint.Key, limit *stint.Limit) stint.Decision {
	s.Helper()
	return s.take(at, key, limit, 0)
}

// variants are limits of requests per hour under every algorithm and every way to
// count; each holds exactly requests. None refills within a tenth of a second.
func variants(requests uint32) []*stint.Limit {
	var all []*stint.Limit
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket},
		{Algorithm: stint.TokenBucket, Step: true},
		{Algorithm: stint.TokenBucket, Reserve: true},
		{Algorithm: stint.LeakyBucket, Burst: requests - 1},
		{Algorithm: stint.FixedWindow},
		{Algorithm: stint.FixedWindow, FromFirst: true},
		{Algorithm: stint.FixedWindow, CarryDebt: true},
		{Algorithm: stint.SlidingLog},
		{Algorithm: stint.SlidingWindow, Blocks: 1},
		{Algorithm: stint.SlidingWindow, Blocks: 12},
	} {
		spec.Requests, spec.Per = requests, time.Hour
		all = append(all, stint.MustLimit(spec))
	}
	return append(all, stint.MustLimit(stint.Spec{Requests: requests, Calendar: stint.Month}))
}

// name tells the variants apart.
func name(limit *stint.Limit) string {
	spec := limit.Spec()
	text := spec.Algorithm.String()
	switch {
	case spec.Step:
		text += " in steps"
	case spec.Reserve:
		text += " that holds"
	case spec.FromFirst:
		text += " from the first"
	case spec.CarryDebt:
		text += " that carries its debt"
	case spec.Blocks > 1:
		text += " of blocks"
	case spec.Calendar != stint.NoPeriod:
		text += " of the calendar"
	}
	return text
}

// eachVariant runs a part for each of the variants, with a store of its own.
func eachVariant(t *testing.T, o Options, requests uint32, part func(s tester, limit *stint.Limit)) {
	t.Helper()
	for _, limit := range variants(requests) {
		t.Run(name(limit), func(t *testing.T) { part(start(t, o), limit) })
	}
}

// random returns a source of random numbers whose seed is printed on failure.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -args -storetest.seed=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
