package stint_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random histories, as a failure printed it; 0: another one each run")
	histFlag = flag.Int("histories", 400, "random histories of each property")
)

// zero is where random histories begin: inside of windows, blocks and steps.
var zero = stint.At(time.Date(2026, 3, 29, 0, 59, 58, 123457000, time.UTC))

// A try is one take of a history.
type try struct {
	at    stint.Instant
	cost  uint64
	force bool // debit without asking
}

// play puts the try to a state.
func (t try) play(limit *stint.Limit, st *stint.State) stint.Decision {
	if t.force {
		return limit.Force(st, t.at, t.cost)
	}
	return limit.Take(st, t.at, t.cost)
}

// history is a limit and the takes of one key under it, in order of time.
type history struct {
	limit *stint.Limit
	tries []try
	*rand.Rand
}

// String shows the limit and the tries, so that a failure can be replayed by hand.
func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", h.limit.Spec())
	for _, t := range h.tries {
		fmt.Fprintf(&b, "  +%dµs cost %d force %v\n", t.at-zero, t.cost, t.force)
	}
	return b.String()
}

// eachHistory runs check on random histories of the specs that only accepts, nil
// for all. A failure prints the seed.
func eachHistory(t *testing.T, only func(stint.Spec) bool, check func(t *testing.T, h *history)) {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	var h *history
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test -run '^%s$' -args -seed=%d -histories=%d\n%s", t.Name(), seed, *histFlag, h)
		}
	}()
	for i := range *histFlag {
		h = &history{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		for h.limit == nil || only != nil && !only(h.limit.Spec()) {
			h.limit = randomLimit(h.Rand)
		}
		h.fill()
		if check(t, h); t.Failed() {
			return
		}
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomLimit returns a limit of any counting algorithm with numbers that are small,
// odd, or do not divide each other.
func randomLimit(r *rand.Rand) *stint.Limit {
	for {
		spec := stint.Spec{
			Algorithm: stint.Algorithm(r.IntN(int(stint.Unlimited))),
			Requests:  pick[uint32](r, 1, 2, 3, 5, 7, 10, 60, 999),
			Per:       pick(r, 10*time.Millisecond, 999983*time.Microsecond, time.Second, 7*time.Second, time.Minute, 24*time.Hour),
		}
		switch spec.Algorithm {
		case stint.TokenBucket:
			spec.Burst = pick[uint32](r, 0, 1, 2, 5, 13, 100)
			spec.Step = r.IntN(3) == 0
		case stint.LeakyBucket:
			spec.Burst = pick[uint32](r, 0, 1, 4, 9)
			spec.MaxWait = pick(r, 0, 0, spec.Per/time.Duration(spec.Requests)*2, 1500*time.Millisecond).Truncate(time.Microsecond)
		case stint.FixedWindow:
			spec.FromFirst = r.IntN(2) == 0
		case stint.SlidingLog:
			spec.MinInterval = pick(r, 0, 0, spec.Per/2/time.Duration(spec.Requests), spec.Per/3, spec.Per).Truncate(time.Microsecond)
			spec.CountDenied = r.IntN(3) == 0
		case stint.SlidingWindow:
			spec.Blocks = pick(r, 0, 1, 2, 5, 10, 40)
			spec.StartUsedUp = r.IntN(3) == 0
		}
		spec.Overdraw = spec.Algorithm != stint.LeakyBucket && r.IntN(8) == 0
		if limit, err := stint.NewLimit(spec); err == nil {
			return limit
		}
	}
}

// fill makes up to 60 takes close to the edges of the limit: after its charge, block or period, a
// microsecond before or after, or at once.
func (h *history) fill() {
	now := zero
	for range 1 + h.IntN(60) {
		h.tries = append(h.tries, try{at: now, cost: h.cost()})
		now += h.step(now)
	}
}

// cost is mostly small, now and then at the edges of the limit.
func (h *history) cost() uint64 {
	most := uint64(h.limit.Capacity())
	return pick(h.Rand, 0, 1, 1, 1, 1, 2, 3, 1+h.Uint64N(most), most, most+1)
}

func (h *history) step(now stint.Instant) stint.Instant {
	spec := h.limit.Spec()
	per := spec.Per.Microseconds()
	unit := ceilDiv(per, int64(spec.Requests))
	if spec.Blocks > 0 {
		unit = per / int64(spec.Blocks)
	}
	step := pick(h.Rand, 0, 0, 1, unit, unit, per, unit-int64(now)%unit, per-int64(now)%per,
		h.Int64N(unit+1), h.Int64N(per+1), 3*per, 5*unit)
	return stint.Instant(max(0, step+pick[int64](h.Rand, 0, 0, 0, -1, 1)))
}

// clone returns a state of its own with the same content.
func clone(t testing.TB, st *stint.State) *stint.State {
	t.Helper()
	b, err := st.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := new(stint.State)
	if err := c.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	return c
}
