package loadtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"stint/internal/system"
)

// start is a call that a worker has to make.
type start struct {
	key int
	due time.Duration // since the run began; a closed loop has none
}

// schedule hands out the calls of a run, the next one to the worker that asks first.
type schedule struct {
	began     time.Time
	openLoop  bool
	most      int
	duration  time.Duration
	key       func() int
	gap       func() time.Duration // time between two calls of an open loop
	sleepTill func(ctx context.Context, at time.Time)

	mu     sync.Mutex // held while a worker waits for the time of its call: it is the next one
	handed int
	next   time.Duration // when the next call is due
}

func newSchedule(p *Plan, began time.Time) *schedule {
	random := rand.New(rand.NewPCG(p.Seed, 1))
	s := &schedule{
		began: began, openLoop: p.Rate > 0, most: p.Count, duration: p.Duration,
		key: p.Keys.chooser(rand.New(rand.NewPCG(p.Seed, 2))), sleepTill: sleepUntil,
	}
	if s.most == 0 {
		s.most = MaxCount
	}
	even := float64(time.Second) / p.Rate
	exact := 0.0 // the time of the next call, not rounded
	s.gap = func() time.Duration {
		before := exact
		if p.Poisson {
			exact += random.ExpFloat64() * even
		} else {
			exact += even
		}
		return time.Duration(exact) - time.Duration(before)
	}
	return s
}

// take returns the next call when it is due; false if there is none.
func (s *schedule) take(ctx context.Context) (start, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.handed >= s.most || time.Since(s.began) >= s.duration || s.next >= s.duration {
		return start{}, false
	}
	if !s.openLoop {
		s.handed++
		return start{key: s.key()}, true
	}
	if s.sleepTill(ctx, s.began.Add(s.next)); ctx.Err() != nil {
		return start{}, false
	}
	call := start{key: s.key(), due: s.next}
	s.handed++
	s.next += s.gap()
	return call, true
}

// overdue calls each for the due times until end of calls that nobody took. All workers have ended.
func (s *schedule) overdue(end time.Duration, each func(due time.Duration)) {
	if !s.openLoop {
		return
	}
	for ; s.next < min(end, s.duration) && s.handed < s.most; s.handed++ {
		each(s.next)
		s.next += s.gap()
	}
}

// sleepUntil waits for a time, to about 0.1 ms, or until ctx ends.
func sleepUntil(ctx context.Context, at time.Time) {
	const coarse = 2 * time.Millisecond // a timer may be a millisecond late
	if rest := time.Until(at); rest > coarse && !system.Wait(ctx, rest-coarse) {
		return
	}
	if rest := time.Until(at); rest > 0 {
		system.Nap(rest)
	}
	// A signal ended the nap, or this system has none.
	if rest := time.Until(at); rest > 0 {
		time.Sleep(rest)
	}
}
