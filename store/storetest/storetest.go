// Package storetest is the suite that every store passes: it checks a store against the contract of
// stint.Store and the traces, decision by decision.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Options{
//			New: func(testing.TB) stint.Store { return memory.New(memory.Options{}) },
//		})
//	}
//
// Nearly all calls set their time (stint.Call.At), so a run gives the same results on slow and fast
// machines.
package storetest

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/store/storetest/model"
)

var (
	seedFlag      = flag.Uint64("storetest.seed", 0, "seed of the random histories, as a failure printed it; 0: another one each run")
	historiesFlag = flag.Int("storetest.histories", 200, "how many random histories; a tenth where a decision leaves the process")
	roundsFlag    = flag.Int("storetest.rounds", 3, "how often one key is contended for, by 64 goroutines; the long run is 100")
	triesFlag     = flag.Int("storetest.tries", 20_000, "how often one key is tried in each round; the long run is 1000000")
)

// Options describe how to make the store, and in what stores may differ.
type Options struct {
	// New returns an empty store that shares nothing with others. It registers t.Cleanup for what
	// must be closed.
	New func(t testing.TB) stint.Store

	// Backwards means that a call whose time is before that of an earlier one is decided exactly as
	// by stint.State. If it is false such a call may be decided more strictly, and the suite makes
	// none.
	Backwards bool

	// Scattered means that the keys of a call may lie on several servers. Then a call need not see
	// all of them at one moment; when calls collide, a place in a leaky bucket may stay unused; and
	// the retry time of a denied take that borrows may include the debt of that denial. If the
	// numbers of a key have just changed, the store need not know the time of the last take, so
	// that beside another denial a take that min_interval denies may be shown as allowed.
	Scattered bool

	// NoBorrowing means that sources are stored elsewhere than other keys: then no take of the
	// suite borrows.
	NoBorrowing bool

	// SameNumbers means that all callers of the store have the same numbers of a limit, which
	// change for all at once, as in one process: then no take of the suite has others.
	SameNumbers bool

	// Counters means that each window and each block has a counter of its own, so that what a clock
	// counted that was ahead is not counted at the present.
	Counters bool

	// Lends reports whether the store lends units of keys to nodes, see stint.Loan.
	Lends bool

	// Slow means that a decision leaves the process: contention and random histories are a tenth as
	// long, and parts of the suite run at the same time, so they call New at the same time.
	Slow bool
}

// Run runs the whole suite on a store, each part as a subtest.
func Run(t *testing.T, o Options) {
	t.Helper()
	if o.Slow {
		t.Run("parts", func(t *testing.T) { runParts(t, o) }) // ends when all parts have ended
	} else {
		runParts(t, o)
	}
}

// RunLoans runs only the part of the suite about loans.
func RunLoans(t *testing.T, o Options) {
	t.Helper()
	loans(t, o)
}

func runParts(t *testing.T, o Options) {
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
		{"AtMost", atMost},
		{"Ops", ops},
		{"Reservations", reservations},
		{"Borrows", borrows},
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
		{"Usage", usage},
		{"Grants", grants},
	} {
		if part.name == "Borrows" && o.NoBorrowing || (part.name == "Carry" || part.name == "Reload") && o.SameNumbers ||
			part.name == "Differences" && !o.Backwards {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			if o.Slow {
				t.Parallel()
			}
			part.run(t, o)
		})
	}
}

// noon is the time of most calls: inside of windows, blocks and steps.
var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 7, 123457000, time.UTC))

// tester calls a store and ends the test if that fails.
type tester struct {
	testing.TB
	stint.Store
}

// start returns a tester of a new store.
func start(t testing.TB, o Options) tester {
	t.Helper()
	return tester{t, o.New(t)}
}

// decide decides several takes at once.
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

// take decides one take.
func (s tester) take(at stint.Instant, key stint.Key, limit *stint.Limit, cost uint32) stint.Decision {
	s.Helper()
	return s.decide(at, stint.Take{Key: key, Limit: limit, Cost: cost})[0]
}

// peek peeks at one key.
func (s tester) peek(at stint.Instant, key stint.Key, limit *stint.Limit) stint.Decision {
	s.Helper()
	return s.take(at, key, limit, 0)
}

// eachVariant runs a part for each variant, with a store of its own.
func eachVariant(t *testing.T, o Options, requests uint32, part func(s tester, limit *stint.Limit)) {
	t.Helper()
	for _, limit := range model.Variants(requests) {
		t.Run(model.Name(limit), func(t *testing.T) { part(start(t, o), limit) })
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
