package denycache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// noon is when the histories begin: inside of windows, blocks and steps.
var noon = time.Date(2026, 3, 1, 12, 0, 7, 123457000, time.UTC)

// pair is a store with and one without a cache, which get the same calls at the same time.
type pair struct {
	now    time.Time
	mixed  bool // several limits of one algorithm
	unsaid bool // of those, the store did not get some try, which may have written
	parted bool // so the cache may deny for longer than the bare store
	bare   stint.Store
	inner  counter
	recall *Store
}

// counter counts the calls of a store.
type counter struct {
	stint.Store
	asked int
}

func (c *counter) Decide(ctx context.Context, call *stint.Call) error {
	c.asked++
	return c.Store.Decide(ctx, call)
}

func newPair() *pair {
	p := &pair{now: noon}
	clock := func() stint.Instant { return stint.At(p.now) }
	p.bare = memory.New(memory.Options{Clock: clock, Budget: 1})
	p.inner.Store = memory.New(memory.Options{Clock: clock, Budget: 1})
	p.recall = New(&p.inner, Options{MaxAge: time.Hour, Clock: func() time.Time { return p.now }})
	return p
}

// decide sends a call to both, and reports whether the answer came from the cache.
func (p *pair) decide(t *testing.T, takes []stint.Take) (results []stint.Decision, remembered bool) {
	t.Helper()
	want := stint.Call{Takes: takes}
	wantErr := p.bare.Decide(t.Context(), &want)
	got, before := stint.Call{Takes: takes}, p.inner.asked
	err := p.recall.Decide(t.Context(), &got)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, of the store itself %v", err, wantErr)
	}
	if err != nil {
		return nil, false
	}
	remembered = p.inner.asked == before
	if remembered && p.mixed { // the other numbers of a state under old numbers follow those
		got, _ := stint.Combine(got.Results)
		if want, _ := stint.Combine(want.Results); got.Allowed != want.Allowed {
			t.Fatalf("from memory %+v, want %+v", got, want)
		}
		p.unsaid = true
		return nil, true
	}
	for i := range takes {
		got, want := got.Results[i], want.Results[i]
		if got.Own != (remembered && !got.Allowed) {
			t.Fatalf("take %d: from the cache %v, want %v: %+v", i, got.Own, remembered, got)
		}
		got.Own = false
		if remembered && got.Remaining < want.Remaining && !exact(takes[i].Limit) {
			got.Remaining = want.Remaining // after a denial of more than one unit
		}
		if got != want && p.unsaid && (want.Allowed || !got.Allowed) {
			p.parted = true
			return nil, remembered
		}
		if got != want {
			t.Fatalf("take %d, from memory %v:\n got %+v\nwant %+v", i, remembered, got, want)
		}
	}
	return got.Results, remembered
}

// exact reports whether a cached answer has the exact remaining units.
func exact(limit *stint.Limit) bool {
	a := limit.Algorithm()
	return a == stint.TokenBucket && !limit.Spec().Step || a == stint.FixedWindow
}

// everyKind has limits of every kind; each has a second one with other numbers.
var everyKind = func() (all []*stint.Limit) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second},
		{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 12},
		{Algorithm: stint.TokenBucket, Requests: 60, Per: time.Minute, Burst: 3, Step: true},
		{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Second, Step: true, Burst: 9},
		{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Reserve: true},
		{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Overdraw: true},
		{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 3},
		{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 3, MaxWait: 100 * time.Millisecond},
		{Algorithm: stint.FixedWindow, Requests: 4, Per: 3 * time.Second},
		{Algorithm: stint.FixedWindow, Requests: 6, Per: time.Second, FromFirst: true},
		{Algorithm: stint.FixedWindow, Requests: 50, Calendar: stint.Day},
		{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second},
		{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second, MinInterval: 100 * time.Millisecond},
		{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second, CountDenied: true},
		{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Second},
		{Algorithm: stint.SlidingWindow, Requests: 20, Per: 2 * time.Second, Blocks: 10},
		{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Second, StartUsedUp: true},
		{Algorithm: stint.Penalty, Requests: 2, Per: time.Second, Ladder: "100ms 1s", Decay: 2 * time.Second},
		{Algorithm: stint.Unlimited},
		{Algorithm: stint.TokenBucket, Per: time.Second},
	} {
		all = append(all, stint.MustLimit(spec))
	}
	return all
}()

// TestSame: whatever the calls and their order, one process never gets an answer that the store
// itself would not give at that moment; but Remaining may be that of the denial if only the store
// can compute how it grows. After the numbers of a limit have changed, a denied try that the store
// did not get may keep a key denied for longer, which ends a history.
func TestSame(t *testing.T) {
	histories := 400
	if testing.Short() {
		histories = 100
	}
	remembered, several := 0, 0
	for i := range histories {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("seed", seed)
				}
			})
			h := history{Rand: r, pair: newPair(), few: []*stint.Limit{everyKind[r.IntN(len(everyKind))], everyKind[r.IntN(len(everyKind))], everyKind[r.IntN(len(everyKind))]}}
			for i, a := range h.few {
				for _, b := range h.few[i+1:] {
					h.mixed = h.mixed || a != b && a.Algorithm() == b.Algorithm()
				}
			}
			for n := 0; n < 300 && !h.parted; n++ {
				takes := h.next()
				results, known := h.decide(t, takes)
				if known && len(takes) > 0 {
					remembered++
					if len(takes) > 1 {
						several++
					}
				}
				h.note(takes, results)
			}
		})
	}
	if remembered < 20*histories || several < 4*histories {
		t.Errorf("%d answers from memory, %d of them to several takes: the histories prove little", remembered, several)
	}
}

// history makes random calls.
type history struct {
	*rand.Rand
	*pair
	few  []*stint.Limit
	last []stint.Take // repeated most of the time
	undo []stint.Take
}

func (h *history) next() []stint.Take {
	if h.IntN(3) == 0 {
		step := []time.Duration{time.Microsecond, time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second}[h.IntN(5)]
		h.now = h.now.Add(time.Duration(h.Int64N(int64(step/time.Microsecond))+1) * time.Microsecond)
	}
	if n := len(h.undo); n > 0 && h.IntN(25) == 0 {
		return []stint.Take{h.undo[h.IntN(n)]}
	}
	if h.last != nil && h.IntN(3) > 0 {
		return h.last
	}
	takes := make([]stint.Take, 1+h.IntN(4)*h.IntN(2))
	for i := range takes {
		takes[i] = h.take(i)
	}
	if len(takes) > 1 && takes[0].Op == stint.Ask && takes[1].Op == stint.Ask && h.IntN(8) == 0 {
		takes[0].Borrows, takes[1].Independent = 1, takes[0].Independent
	}
	h.last = takes
	return takes
}

func (h *history) take(i int) stint.Take {
	t := stint.Take{
		Key: stint.Key(fmt.Sprint("key", h.IntN(2))), Limit: h.few[h.IntN(len(h.few))],
		Cost: []uint32{0, 1, 1, 1, 1, 1, 2, 2, 3, 5, 20, stint.MaxCost}[h.IntN(12)],
	}
	if i > 0 && h.IntN(4) > 0 {
		t.Key = stint.Key(fmt.Sprint("other", i))
	}
	switch h.IntN(60) {
	case 0:
		t.Op, t.Cost = stint.Force, uint32(h.IntN(8))
	case 1:
		t.Op = stint.Refund
	case 2:
		t.Op = stint.Reset
	case 3, 4, 5:
		t.Key, t.Independent = "apart", true
	case 6:
		t.Handling = &stint.Handling{Live: true}
	case 7, 8, 9, 10, 11, 12:
		if !t.Limit.ForStores().Overdraws() && t.Limit.Algorithm() != stint.Penalty {
			t.Op = stint.AskAtMost
		}
	}
	return t
}

// note stores decisions that can be undone later.
func (h *history) note(takes []stint.Take, results []stint.Decision) {
	if d, _ := stint.Combine(results); !d.Allowed || len(results) == 0 {
		return
	}
	for i, t := range takes {
		if t.Op.Asks() && t.Cost > 0 && t.Borrows == 0 && !results[i].Over {
			d := results[i]
			t.Cost = t.Charged(&d)
			t.Op, t.Undo = []stint.Op{stint.Refund, stint.Settle}[h.IntN(2)], &d
			h.undo = append(h.undo, t)
		}
	}
}
