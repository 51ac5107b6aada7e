package queue

import (
	"context"
	"errors"
	"time"

	"stint/internal/logging"
)

const (
	// sweepEvery is how often old records are looked for.
	sweepEvery = 5 * time.Second

	// sweepMost is how many records one round forgets, of each state.
	sweepMost = 1000

	// maxKept is how many finished records are kept; the oldest are forgotten early.
	maxKept = 100_000
)

// sweepAll forgets old records until ctx is done.
func (w *Worker) sweepAll(ctx context.Context) {
	log := logging.RetryLog{Log: w.options.Log, Event: "cannot forget old records of the queue: they stay", Again: "old records of the queue are forgotten again", Hint: storageHint}
	for {
		w.wait(ctx, sweepEvery)
		if ctx.Err() != nil {
			return
		}
		if err := w.sweep(ctx); ctx.Err() == nil {
			log.Report(err, false)
		}
	}
}

// sweep forgets answers that were kept long enough, and after as long again the records themselves.
func (w *Worker) sweep(ctx context.Context) error {
	stats, err := w.options.Storage.Stats(ctx)
	if err != nil {
		return err
	}
	excess := -maxKept
	for _, s := range stats {
		excess += s.Kept
	}
	for _, state := range []State{Gone, Done, Failed, Cancelled} {
		dropped, err := w.sweepState(ctx, state, max(excess, 0))
		if err != nil {
			return err
		}
		excess -= dropped
	}
	return nil
}

// sweepState forgets records of a state whose time has come. It removes the oldest others while there are
// too many. It returns how many it removed.
func (w *Worker) sweepState(ctx context.Context, state State, excess int) (removed int, err error) {
	list, err := w.options.Storage.List(ctx, state, nil, sweepMost)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	for _, e := range list {
		due := !e.At.After(now)
		if !due && removed >= excess || ctx.Err() != nil {
			break
		}
		err := w.options.Storage.Change(ctx, e.ID, func(e *Entry) error {
			switch {
			case e.State != state:
				return errState
			case due && state != Gone:
				e.State, e.At = Gone, now.Add(e.Keep)
			default:
				e.State = Removed
			}
			return nil
		})
		switch {
		case errors.Is(err, errState), errors.Is(err, ErrUnknown): // another gateway was faster
		case err != nil:
			return removed, err
		case !due || state == Gone:
			removed++
		}
	}
	return removed, nil
}

// publishAll publishes records until ctx is done.
func (w *Worker) publishAll(ctx context.Context) {
	log := logging.RetryLog{Log: w.options.Log, Event: "cannot publish records of the queue: they wait", Again: "records of the queue are published again", Hint: storageHint}
	for ctx.Err() == nil {
		w.checkRules(ctx)
		if err := w.options.Publish(ctx); ctx.Err() == nil {
			log.Report(err, false)
		}
		w.idle(ctx, w.options.Poll)
	}
}
