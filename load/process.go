package load

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	measureEvery = time.Second
	// measureFirst is the length of the first measurement, during which there is no earlier value.
	measureFirst = 100 * time.Millisecond
	// measureLate is the time after which a measurement no longer describes the last second.
	measureLate = 5 * time.Second
)

// process measures the load of this process without a goroutine: the first call after measureEvery
// computes the CPU time used since the last one.
type process struct {
	used func() (time.Duration, bool) // nil: read from the system

	last atomic.Pointer[sample]
	mu   sync.Mutex // held while measuring
}

// sample is the end of one measurement and the start of the next.
type sample struct {
	at    time.Time
	used  time.Duration
	known bool // used is valid
	load  float64
	ok    bool // load is valid
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

// due reports whether the next measurement ends at now.
func (s *sample) due(now time.Time) bool {
	if s == nil {
		return true
	}
	age := now.Sub(s.at)
	return age >= measureEvery || !s.ok && age >= measureFirst
}

// measure ends a measurement and starts the next.
func (p *process) measure(last *sample, now time.Time) {
	read := p.used
	if read == nil {
		read = processorTime
	}
	used, ok := read()
	next := &sample{at: now, used: used, known: ok}
	if ok && last != nil && last.known && now.Sub(last.at) <= measureLate {
		span := now.Sub(last.at).Seconds() * float64(runtime.GOMAXPROCS(0))
		next.load, next.ok = max(0, (used-last.used).Seconds())/span, true
	}
	p.last.Store(next)
}
