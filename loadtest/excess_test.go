package loadtest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

// call is an allowed call of a table: seconds of sending and answer.
type call struct{ sent, answered float64 }

func passedOf(calls []call) (all []Passed) {
	for _, c := range calls {
		at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		all = append(all, Passed{Cost: 1, Sent: at(c.sent), Answered: at(c.answered)})
	}
	return all
}

// at returns calls that took no time.
func at(seconds ...float64) (all []call) {
	for _, s := range seconds {
		all = append(all, call{s, s})
	}
	return all
}

// every returns n calls in equal distances.
func every(from, distance float64, n int) (all []call) {
	for i := range n {
		all = append(all, call{from + float64(i)*distance, from + float64(i)*distance})
	}
	return all
}

var (
	unknown = Phase{Error: -1}
	known   = Phase{Error: time.Millisecond} // windows begin at whole multiples of the times of the table
)

func TestExcess(t *testing.T) {
	second := func(s stint.Spec) stint.Spec { s.Per = time.Second; return s }
	bucket := second(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Burst: 3})
	quick := second(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Burst: 1})
	leaky := second(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 2, Burst: 2})
	step := second(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Burst: 2, Step: true})
	fixed := second(stint.Spec{Requests: 3})
	first := second(stint.Spec{Requests: 3, FromFirst: true})
	log := second(stint.Spec{Algorithm: stint.SlidingLog, Requests: 3})
	blocks := second(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 3, Blocks: 2})
	for _, test := range []struct {
		name  string
		spec  stint.Spec
		phase Phase
		calls []call
		over  bool
	}{
		{"nothing", bucket, unknown, nil, false},
		{"the burst", bucket, unknown, at(0, 0, 0), false},
		{"one more than the burst", bucket, unknown, at(0, 0, 0, 0), true},
		{"the burst and the rate", bucket, unknown, at(0, 0, 0, .5, 1, 1.5), false},
		{"one more later", bucket, unknown, at(0, 0, 0, .5, 1, 1.1), true},
		{"sent in time but answered late", bucket, unknown, append(at(0, 0, 0), call{0, .5}), false},
		{"answered early but sent before", bucket, unknown, append(at(.5, .5, .5), call{0, .5}), false},
		{"a faster clock explains it", bucket, unknown, append(at(0, 0, 0), every(.4998, .4998, 100)...), false},
		{"no clock is that fast", bucket, unknown, append(at(0, 0, 0), every(.4985, .4985, 100)...), true},
		{"within the microseconds of a clock", quick, unknown, at(0, 0, 0), false},
		{"more than the microseconds of a clock", quick, unknown, at(0, 0, 0, 0), true},
		{"no clock explains it", bucket, unknown, at(0, 0, 0, .48), true},
		{"an excess far from the start", bucket, unknown, append(every(0, .5, 100), at(60, 60, 60, 60)...), true},
		{"a queue and the one being served", leaky, unknown, at(0, 0, 0), false},
		{"one more than the queue", leaky, unknown, at(0, 0, 0, 0), true},

		{"steps: the burst and one step", step, unknown, at(.9, .9, 1), false},
		{"steps: one too many in any window", step, unknown, at(.9, .9, 1, 1), true},
		{"steps: more than the burst between two steps", step, known, at(.1, .2, .3), true},
		{"steps: a step may lie between", step, unknown, at(.1, .2, .3), false},
		{"steps: two seconds, one step inside", step, known, at(1.1, 1.1, 2.1, 2.5), true},

		{"a window", fixed, known, at(.1, .2, .3), false},
		{"one more in the window", fixed, known, at(.1, .2, .3, .4), true},
		{"over the edge of two windows", fixed, known, at(.8, .8, .8, 1.1, 1.1, 1.1), false},
		{"twice the limit over the edge, and one more", fixed, unknown, at(.8, .8, .8, .9, 1.1, 1.1, 1.1), true},
		{"an edge may lie anywhere", fixed, unknown, at(.1, .2, .3, .4), false},
		{"no edge explains it", fixed, unknown, every(0, .1, 50), true},
		{"as many as may, for long", fixed, unknown, every(0, .34, 50), false},
		{"bursts of one more in each window, at the same place", fixed, unknown, slices.Concat(every(.5, .01, 4), every(1.5, .01, 4), every(2.5, .01, 4)), false},
		{"a call over the edge counts in neither", fixed, known, append(at(.1, .2, .3), call{.9, 1.1}), false},

		{"windows from the first: two of them", first, unknown, at(0, .9, .9, 1, 1, 1), false},
		{"windows from the first: more than two have", first, unknown, at(.5, .5, .6, .6, .7, .7, .8), true},

		{"a log", log, unknown, at(0, .1, .2, 1.01, 1.11, 1.21), false},
		{"one more in a log", log, unknown, at(0, .1, .2, .9), true},
		{"an entry as old as the window", log, unknown, at(0, .1, .2, 1), false},

		{"blocks in a row", blocks, known, at(.1, .6, .7), false},
		{"one more in two blocks", blocks, known, at(.6, .7, 1.1, 1.2), true},
		{"three blocks", blocks, known, at(.4, .6, 1.1, 1.4), false},
		{"twice the limit, and one more", blocks, unknown, at(.1, .1, .1, .1, .5, .5, .5), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Excess(stint.MustLimit(test.spec), passedOf(test.calls), test.phase)
			if found.Exceeded != test.over {
				t.Errorf("%s: exceeded %v, want %v: %s", found.Limit, found.Exceeded, test.over, found.Sentence())
			}
			if found.Exceeded && found.Worst.Over() <= 0 {
				t.Errorf("the worst window is over by %v", found.Worst.Over())
			}
		})
	}
}

// Each key has the limit for itself.
func TestExcessOfKeys(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 2})
	var passed []Passed
	for key := range 5 {
		for range 2 {
			passed = append(passed, Passed{Key: key, Cost: 1})
		}
	}
	if found := Excess(limit, passed, unknown); found.Exceeded || found.Checked != 10 {
		t.Errorf("two of each key: %+v", found)
	}
	passed = slices.Insert(passed, 6, Passed{Key: 3, Cost: 3})
	if found := Excess(limit, passed, unknown); !found.Exceeded || found.Worst.Key != 3 || found.Worst.Passed != 5 {
		t.Errorf("one more of key 3: %+v, worst %+v", found, found.Worst)
	}
}

// A limit decides at random moments, of which the check sees only when calls were sent and answered, and by a clock whose windows begin elsewhere: it
// must never be accused. The same limit with a unit less must sometimes be, so that the check is not blind.
func TestExcessNeverAccuses(t *testing.T) {
	specs := []stint.Spec{
		{Algorithm: stint.TokenBucket, Burst: 9},
		{Algorithm: stint.TokenBucket, Burst: 9, Step: true},
		{Algorithm: stint.LeakyBucket, Burst: 4},
		{},
		{FromFirst: true},
		{Algorithm: stint.SlidingLog},
		{Algorithm: stint.SlidingWindow, Blocks: 1},
		{Algorithm: stint.SlidingWindow, Blocks: 5},
	}
	for i, spec := range specs {
		spec.Requests, spec.Per = 6, 100*time.Millisecond
		limit := stint.MustLimit(spec)
		less := spec
		less.Requests -= 2
		if less.Burst > 0 {
			less.Burst -= 2
		}
		accused := 0
		for seed := range uint64(60) {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			offset := time.Duration(random.Int64N(int64(spec.Per)))
			passed := decide(limit, random, offset)
			for _, phase := range []Phase{unknown, {Zero: int64(offset), Error: 0}, {Zero: int64(offset) + 999_000, Error: time.Millisecond}} {
				if found := Excess(limit, passed, phase); found.Exceeded {
					t.Fatalf("seed %d, phase %+v: %s %s", seed, phase, found.Limit, found.Sentence())
				}
			}
			if Excess(stint.MustLimit(less), passed, unknown).Exceeded {
				accused++
			}
		}
		if accused == 0 {
			t.Errorf("%s: two units less were never noticed", describe(spec))
		}
	}
}

// decide returns the calls that a limit allows. Its clock is ahead by offset.
func decide(limit *stint.Limit, random *rand.Rand, offset time.Duration) (passed []Passed) {
	var state stint.State
	at := time.Duration(0)
	for range 400 {
		at += time.Duration(random.Int64N(int64(12 * time.Millisecond)))
		if random.IntN(30) == 0 {
			at += 150 * time.Millisecond // a rest, after which a whole burst passes
		}
		before, after := time.Duration(random.Int64N(int64(2*time.Millisecond))), time.Duration(random.Int64N(int64(2*time.Millisecond)))
		cost := uint32(1 + random.IntN(2))
		d := limit.Take(&state, stint.Instant((1e6*limit.Spec().Per+at+offset)/time.Microsecond), uint64(cost))
		if d.Allowed {
			passed = append(passed, Passed{Cost: cost, Sent: at - before, Answered: at + after})
		}
	}
	return passed
}

// A run in which nothing was allowed, such as one without answers, says nothing about the limit.
func TestSentence(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: time.Second})
	one := Passed{Cost: 1, Sent: time.Second, Answered: time.Second}
	for n, want := range []string{
		"not tested, as no call was allowed (1 in any window of 1s)",
		"kept by 1 allowed calls (1 in any window of 1s)",
		"EXCEEDED: 2 units of key 0 passed",
	} {
		found := Excess(limit, []Passed{one, one}[:n], Phase{Error: -1})
		if got := found.Sentence(); !strings.HasPrefix(got, want) {
			t.Errorf("%d calls: %q, want %q", n, got, want)
		}
	}
}

// The report says that a failure policy may have allowed what exceeds the limit.
func TestDegraded(t *testing.T) {
	const note = "what a failure policy allowed is in this number"
	for _, r := range []Report{
		{Allowed: 7, Degraded: 3, Limit: &Finding{Exceeded: true, Worst: &Window{}}},
		{Allowed: 7, Limit: &Finding{Exceeded: true, Worst: &Window{}}},
		{Allowed: 7, Degraded: 3, Limit: &Finding{}},
	} {
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), note); got != (r.Degraded > 0 && r.Limit.Exceeded) {
			t.Errorf("%+v, %+v:\n%s", r, *r.Limit, &b)
		}
		if got := strings.Contains(b.String(), "allowed    7, denied 0; a failure policy gave 3 of these answers\n"); got != (r.Degraded > 0) {
			t.Errorf("%+v:\n%s", r, &b)
		}
	}
}
