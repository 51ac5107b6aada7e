package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
)

// The bounds of a plan.
const (
	MaxDuration = 10 * time.Minute
	MaxCount    = 50_000_000
	MaxRate     = 1_000_000
	MaxWorkers  = 4096
	MaxKeys     = 10_000_000
	MaxTimeout  = time.Minute
)

// Target is what a run calls. Its callers share what they can, such as a pool of connections.
type Target interface {
	// Caller returns a caller for one worker. It connects at its first call.
	Caller() Caller

	// Close releases what the callers share, after all of them have been closed.
	Close() error
}

// Caller sends the calls of one worker, one at a time.
type Caller interface {
	// Ask asks for cost units of a key, and waits for the answer at most until ctx ends.
	Ask(ctx context.Context, key int, cost uint32) (Answer, error)

	// Close closes the connection of this caller.
	Close() error
}

// Answer is the decision of a service.
type Answer struct {
	Allowed  bool
	Degraded bool // decided by a failure policy, not by the limit
}

// Plan describes a run. Each run is bounded by Duration, Count and Timeout.
type Plan struct {
	Target Target

	// Rate is how many calls start in a second: an open loop. 0: a closed loop.
	Rate float64

	// Poisson makes the calls of an open loop start at random times with the average Rate, not evenly.
	Poisson bool

	// Workers is how many calls are in flight at most, in a closed loop as long as it runs. An open loop needs as
	// many as Rate times the longest answer; calls that find no worker start late, and their times count from the
	// planned start.
	Workers int

	Duration time.Duration // no call starts later; at most MaxDuration
	Count    int           // most calls; 0 means MaxCount
	Timeout  time.Duration // longest wait for an answer; at most MaxTimeout

	Keys Keys
	Cost uint32 // units of each call
	Seed uint64 // of keys and random times

	// Limit is the limit of each key, for the check whether more passed. Nil: no check.
	Limit *stint.Limit

	// ClockError is how far the clock that decides may be from the clock of this machine, for limits whose windows
	// begin at multiples of a time. Negative: unknown. Then the check looks for any beginning of windows that
	// would explain what passed.
	ClockError time.Duration

	// Progress is called about every ProgressEvery during the run, if it is not nil.
	Progress      func(Progress)
	ProgressEvery time.Duration
}

// Progress is the state of a run.
type Progress struct {
	Took                    time.Duration
	Allowed, Denied, Errors int64
}

// check returns an error for values that a plan does not support.
func (p *Plan) check() error {
	switch {
	case p.Target == nil:
		return errors.New("loadtest: no target")
	case p.Rate < 0 || p.Rate > MaxRate || p.Rate != p.Rate:
		return fmt.Errorf("loadtest: rate %v is not between 0 and %d", p.Rate, MaxRate)
	case p.Workers < 1 || p.Workers > MaxWorkers:
		return fmt.Errorf("loadtest: %d workers are not between 1 and %d", p.Workers, MaxWorkers)
	case p.Duration <= 0 || p.Duration > MaxDuration:
		return fmt.Errorf("loadtest: duration %v is not between 0 and %v", p.Duration, MaxDuration)
	case p.Count < 0 || p.Count > MaxCount:
		return fmt.Errorf("loadtest: count %d is not between 0 and %d", p.Count, MaxCount)
	case p.Timeout <= 0 || p.Timeout > MaxTimeout:
		return fmt.Errorf("loadtest: timeout %v is not between 0 and %v", p.Timeout, MaxTimeout)
	case p.Progress != nil && p.ProgressEvery <= 0:
		return fmt.Errorf("loadtest: progress every %v", p.ProgressEvery)
	}
	if p.Limit != nil {
		if err := checkable(p.Limit); err != nil {
			return err
		}
	}
	return p.Keys.check()
}
