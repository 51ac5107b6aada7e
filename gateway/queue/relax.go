package queue

import (
	"context"
	"errors"
	"time"
)

// relaxPage is how many records are listed at a time.
const relaxPage = 1000

// checkRules lets records wait no longer than the rules in force demand, if these have changed.
func (w *Worker) checkRules(ctx context.Context) {
	if w.options.Rules == nil {
		return
	}
	if now := w.options.Rules(); now != w.rules {
		w.rules = now
		w.running.Go(func() {
			if err := w.relax(ctx); err != nil && ctx.Err() == nil {
				w.options.Log.Error("cannot apply new rules to all records of the queue: some wait as long as before", "error", err)
			}
			w.Wake()
		})
	}
}

// relax makes all records due that wait for a limit: the gate then says how long each still has to wait.
func (w *Worker) relax(ctx context.Context) error {
	for after := (*Entry)(nil); ; {
		list, err := w.options.Storage.List(ctx, Waiting, after, relaxPage)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, e := range list {
			if !relaxed(e) {
				continue
			}
			err := w.options.Storage.Change(ctx, e.ID, func(e *Entry) error {
				if e.State != Waiting || !relaxed(e) {
					return errState
				}
				return nil
			})
			if err != nil && !errors.Is(err, errState) && !errors.Is(err, ErrUnknown) {
				return err
			}
		}
		after = list[len(list)-1]
	}
}

// relaxed makes a record due now, or after the pause that its last try demands, and reports whether that is
// sooner than before.
func relaxed(e *Entry) bool {
	sooner := time.Now()
	if e.Tries > 0 {
		sooner = sooner.Add(pauseAfter(e.Tries))
	}
	if !e.At.After(sooner) {
		return false
	}
	e.At = sooner
	return true
}
