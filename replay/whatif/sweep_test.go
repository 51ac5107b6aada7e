package whatif

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
)

// ask is one take of a trace.
type ask struct {
	at   stint.Instant
	key  string
	cost uint32
}

// sweep returns the curve of a trace.
func sweep(t *testing.T, spec stint.Spec, asks []ask) *Curve {
	t.Helper()
	s := NewSweep("rule", stint.MustLimit(spec))
	for _, a := range asks {
		s.Take(a.at, a.key, a.cost)
	}
	c := s.Curve()
	if c == nil {
		t.Fatal("there is no curve")
	}
	return c
}

const begin = stint.Instant(1_700_000_000_000_000)

// TestSweepAnswers has a hundred keys, of which key i asks i times a minute.
func TestSweepAnswers(t *testing.T) {
	var asks []ask
	start := begin - begin%60e6
	for second := range stint.Instant(60) {
		for i := range 100 {
			if n := stint.Instant(i + 1); second < n && n <= 60 || n > 60 && second < 30 {
				asks = append(asks, ask{start + second*1e6, fmt.Sprint(i), 1})
			}
		}
	}
	c := sweep(t, stint.Spec{Requests: 10, Per: time.Minute}, asks)
	need := func(i int) int64 { // of the key of that rank
		needs := make([]int64, 100)
		for i := range needs {
			if needs[i] = int64(i + 1); needs[i] > 60 {
				needs[i] = 30
			}
		}
		slices.Sort(needs)
		return needs[i]
	}
	want := []Answer{
		{0, Point{need(99), 0, 0}},
		{0.001, Point{need(99), 0, 0}},
		{0.01, Point{need(98), 1, need(99) - need(98)}},
	}
	if !slices.Equal(c.Answers[:3], want) {
		t.Errorf("%+v, want %+v", c.Answers[:3], want)
	}
	if c.Answers[3].Share != 0.05 || c.Answers[3].DeniedKeys > 5 || c.Answers[3].DeniedKeys == 0 {
		t.Errorf("%+v", c.Answers[3])
	}
	if c.Keys != 100 || c.Takes != int64(len(asks)) || c.Requests != 10 || c.Per != "1m" || c.Algorithm != "fixed_window" {
		t.Errorf("%+v", c)
	}
}

// TestSweepAgrees compares each point with a plain decision of the same takes, for every algorithm.
func TestSweepAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	asks := randomAsks(random, 2000)
	for _, spec := range []stint.Spec{
		{Requests: 20, Per: 10 * time.Second},
		{Requests: 20, Per: 10 * time.Second, FromFirst: true},
		{Algorithm: stint.TokenBucket, Requests: 20, Per: 10 * time.Second, Burst: 5},
		{Algorithm: stint.LeakyBucket, Requests: 20, Per: 10 * time.Second, Burst: 5},
		{Algorithm: stint.SlidingLog, Requests: 20, Per: 10 * time.Second},
		{Algorithm: stint.SlidingWindow, Requests: 20, Per: 10 * time.Second, Blocks: 5},
		{Requests: 20, Calendar: stint.Day},
	} {
		c := sweep(t, spec, asks)
		if len(c.Points) < 10 || len(c.Answers) != len(Shares) {
			t.Errorf("%+v: %d points, %d answers", spec, len(c.Points), len(c.Answers))
		}
		for _, p := range c.Points {
			if keys, takes := denials(t, spec, p.Requests, asks); keys != p.DeniedKeys || takes != p.Denied {
				t.Errorf("%v at %d: %+v, want %d keys and %d takes denied", spec.Algorithm, p.Requests, p, keys, takes)
			}
		}
		for _, a := range c.Answers {
			if float64(a.DeniedKeys) > a.Share*float64(c.Keys) {
				t.Errorf("%v: %+v denies more than its share", spec.Algorithm, a)
			}
			if keys, _ := denials(t, spec, a.Requests-1, asks); a.Requests > 1 && float64(keys) <= a.Share*float64(c.Keys) {
				t.Errorf("%v: %+v, but %d is enough: %d keys", spec.Algorithm, a, a.Requests-1, keys)
			}
		}
	}
}

// denials decides the takes one after another by a limit with a number of requests.
func denials(t *testing.T, spec stint.Spec, requests int64, asks []ask) (keys, takes int64) {
	t.Helper()
	if requests == 0 {
		return int64(len(asks)), int64(len(asks))
	}
	if spec.Burst > 0 {
		spec.Burst = uint32((int64(spec.Burst)*requests + int64(spec.Requests) - 1) / int64(spec.Requests))
	}
	spec.Requests, spec.RoundRate = uint32(requests), true
	limit := stint.MustLimit(spec)
	states, denied := map[string]*stint.State{}, map[string]bool{}
	for _, a := range asks {
		if states[a.key] == nil {
			states[a.key] = new(stint.State)
		}
		if d := limit.Take(states[a.key], a.at, uint64(a.cost)); !d.Allowed {
			denied[a.key] = true
			takes++
		}
	}
	return int64(len(denied)), takes
}

// randomAsks returns takes of 40 keys, some of which ask much more than others.
func randomAsks(random *rand.Rand, n int) []ask {
	asks := make([]ask, n)
	at := begin
	for i := range asks {
		at += stint.Instant(random.IntN(100_000))
		asks[i] = ask{at, fmt.Sprint(random.IntN(1 + random.IntN(40))), 1}
		if random.IntN(10) == 0 {
			asks[i].cost = uint32(1 + random.IntN(4))
		}
	}
	return asks
}

// A limit without numbers, and one that nobody asked, have no curve.
func TestSweepWithoutCurve(t *testing.T) {
	unlimited := NewSweep("rule", stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}))
	unlimited.Take(begin, "a", 1)
	unasked := NewSweep("rule", stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second}))
	unasked.Take(begin, "a", 0)
	if unlimited.Curve() != nil || unasked.Curve() != nil {
		t.Error("there is a curve")
	}
}

// Two requests at the same time exceed any leaky bucket without a queue.
func TestSweepWithoutAnswer(t *testing.T) {
	c := sweep(t, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second}, []ask{{begin, "a", 1}, {begin, "a", 1}, {begin, "b", 1}})
	if len(c.Answers) != 0 {
		t.Errorf("%+v", c.Answers)
	}
}

// Two requests a millisecond apart pass a leaky bucket of 1,000 a second, however few they are.
func TestSweepBeyondUnits(t *testing.T) {
	c := sweep(t, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second}, []ask{{begin, "a", 1}, {begin + 1000, "a", 1}})
	if len(c.Answers) != len(Shares) || c.Answers[0].Requests != 1000 {
		t.Errorf("%+v", c.Answers)
	}
}
