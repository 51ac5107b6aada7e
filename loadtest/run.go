package loadtest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint/internal/system"
)

const (
	// errorPause is how long a worker of a closed loop waits after an error, so that a service
	// that is not there is not asked as fast as possible.
	errorPause = 10 * time.Millisecond

	// hopeless is after how many errors without any answer a run ends early.
	hopeless = 100
)

// Run makes the calls of the plan and returns what came of them. If ctx ends, it gives up the calls in flight and returns what is
// known by then. The only errors are those of the plan.
func (p *Plan) Run(ctx context.Context) (*Report, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	r := &run{plan: p, began: began, schedule: newSchedule(p, began), record: newRecord(p.Workers, p.Limit != nil)}
	r.work(ctx)
	took := time.Since(began)
	total := r.record.total()
	interrupted := ctx.Err() != nil
	var unsent int64
	end := min(took, p.Duration)
	if !interrupted && !r.gaveUp.Load() {
		end = p.Duration
	}
	r.schedule.overdue(end, func(due time.Duration) {
		unsent++
		total.response.add(took-due, 1) // it would have waited at least that long
	})
	return p.report(began, took, total, unsent, interrupted), nil
}

// run is a running plan.
type run struct {
	plan     *Plan
	began    time.Time
	schedule *schedule
	record   *record
	answers  atomic.Int64
	failures atomic.Int64
	gaveUp   atomic.Bool
}

// work runs all workers until the last has ended.
func (r *run) work(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var workers, reporter sync.WaitGroup
	for i := range r.plan.Workers {
		workers.Go(func() { r.worker(ctx, stop, r.record.shards[i%len(r.record.shards)]) })
	}
	ended := make(chan struct{})
	if r.plan.Progress != nil {
		reporter.Go(func() { r.report(ended) })
	}
	workers.Wait()
	close(ended)
	reporter.Wait()
}

// report calls Progress until the workers have ended.
func (r *run) report(ended <-chan struct{}) {
	tick := time.NewTicker(r.plan.ProgressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.plan.Progress(r.record.progress(time.Since(r.began)))
		case <-ended:
			return
		}
	}
}

// worker makes calls until there are none left.
func (r *run) worker(ctx context.Context, stop func(), to *shard) {
	caller := r.plan.Target.Caller()
	defer caller.Close() //nolint:errcheck // all answers have been read
	for {
		call, ok := r.schedule.take(ctx)
		if !ok {
			return
		}
		done := r.call(ctx, caller, call)
		if done.err != nil && ctx.Err() != nil {
			return // given up, which is no failure of the service
		}
		to.add(done, r.record.room, r.schedule.openLoop)
		if done.err == nil {
			r.answers.Add(1)
			continue
		}
		if r.failures.Add(1) >= hopeless && r.answers.Load() == 0 {
			r.gaveUp.Store(true)
			stop()
		}
		if !r.schedule.openLoop {
			system.Wait(ctx, errorPause)
		}
	}
}

// call makes one call.
func (r *run) call(ctx context.Context, caller Caller, call start) result {
	sent := time.Since(r.began) // before the timeout begins, so that a call which timed out took no less
	ctx, cancel := context.WithTimeout(ctx, r.plan.Timeout)
	defer cancel()
	answer, err := caller.Ask(ctx, call.key, r.plan.Cost)
	done := result{
		Passed: Passed{Key: call.key, Cost: r.plan.Cost, Sent: sent, Answered: time.Since(r.began)},
		due:    call.due, answer: answer, err: err,
	}
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		done.err = ctx.Err() // whatever the transport made of it
	}
	return done
}

// report returns the results of a run.
func (p *Plan) report(began time.Time, took time.Duration, total *shard, unsent int64, interrupted bool) *Report {
	r := &Report{
		Mode: "closed loop", Workers: p.Workers, Began: began.UTC(), Took: took.Seconds(), Interrupted: interrupted,
		Keys: p.Keys.Count, Spread: p.Keys.Spread.String(), Cost: p.Cost,
		Calls: total.allowed + total.denied + total.failed, Allowed: total.allowed, Denied: total.denied,
		Degraded: total.degraded, Errors: total.failed, ErrorKinds: total.kinds, Late: total.late, Unsent: unsent,
		Service: total.service.summary(),
	}
	r.PerSecond = float64(r.Allowed+r.Denied) / took.Seconds()
	if p.Rate > 0 {
		r.Mode, r.Rate = "open loop", p.Rate
		r.Response = total.response.summary()
	} else {
		r.Interval = total.service.at(0.5).Microseconds()
		r.Response = total.service.corrected(total.service.at(0.5)).summary()
	}
	if p.Limit != nil {
		slices.SortFunc(total.passed, byKey)
		found := Excess(p.Limit, total.passed, p.phase(began))
		found.Unchecked = total.unchecked
		r.Limit = &found
	}
	return r
}
