package load

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	measureEvery = time.Second
	// measureFirst is after how long the first measurement ends, which has nothing to
	// fall back on.
	measureFirst = 100 * time.Millisecond
	// measureLate is after how long a measurement says nothing of the last second.
	measureLate = 5 * time.Second
)

// process measures the load of this process, without a goroutine: whoever asks after
// measureEvery has passed looks how much time was used since.
type process struct {
	used func() (time.Duration, bool) // nil: of the system

	last atomic.Pointer[sample]
	mu   sync.Mutex // held to measure
}

// sample is where a measurement ended and the next began.
type sample struct {
	at   time.Time
	used time.Duration
	told bool // used is known
	load float64
	ok   bool // load means something
}

// load returns the load at now.
func (p *process) load(now time.Time) (float64, bool) {
	last := p.last.Load()
	if last.due(now) && p.mu.TryLock() {
		if p.last.Load() == last {
			p.measure(last, now)
		}
		p.mu.Unlock()
		last = p.last.Load()
	}
	if last == nil || now.Sub(last.at) > measureLate {
		return 0, false
	}
	return last.load, last.ok
}

// due says whether the next measurement is to end at now.
func (s *sample) due(now time.Time) bool {
	if s == nil {
		return true
	}
	age := now.Sub(s.at)
	return age >= measureEvery || !s.ok && age >= measureFirst
}

// measure ends a measurement and begins the next.
func (p *process) measure(last *sample, now time.Time) {
	read := p.used
	if read == nil {
		read = processorTime
	}
	used, ok := read()
	next := &sample{at: now, used: used, told: ok}
	if ok && last != nil && last.told && now.Sub(last.at) <= measureLate {
		span := now.Sub(last.at).Seconds() * float64(runtime.GOMAXPROCS(0))
		next.load, next.ok = max(0, (used-last.used).Seconds())/span, true
	}
	p.last.Store(next)
}
