package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stint/app/settings"
	"stint/internal/system"
	"stint/rule"
	"stint/rule/audit"
)

// ruleset is the table in force and what became of the last try to replace it.
type ruleset struct {
	mu         sync.Mutex    // held for the whole of a reload: one at a time
	generation atomic.Uint64 // of tables that were in force since the start

	stateMu sync.Mutex // guards what follows; never held for long
	failure error      // of the last reload; nil: it succeeded
	failed  time.Time
}

// Reload reads the rules again and puts them in force, all or nothing: on an error
// the rules before stay, and the log, a metric and /readyz say so until a reload
// succeeds. why is for the log. It is safe for concurrent use. What failed because there
// was no file descriptor or no memory left is tried again every second.
//
// Keys keep what they used. Rules per API are another such set: one of the two may be
// refused and the other put in force. The certificates of grpc are read again too; what
// is wrong with them is logged, and those before stay. Nothing else is.
func (a *App) Reload(why string) error {
	return a.retrying(a.renew(why), a.reload(why, true), a.reloadCatalog(why, true))
}

// retryEvery is the time between two tries of a reload that failed because something had run
// out.
const retryEvery = time.Second

// retrying joins the errors of a reload, and has it tried again where the process or the
// machine had no file descriptor or no memory left: no file changes when there is one again.
func (a *App) retrying(errs ...error) error {
	err := errors.Join(errs...)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		select {
		case a.retry <- struct{}{}:
		default: // it will be
		}
	}
	return err
}

// runRetries tries reloads again that failed for such a reason, until ctx is done.
func (a *App) runRetries(ctx context.Context) {
	const why = "tried again"
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.retry:
		}
		system.Wait(ctx, retryEvery)
		// What is still wrong has been logged.
		_ = a.retrying(a.renew(why), a.reload(why, false), a.reloadCatalog(why, false))
	}
}

// reload does nothing where the same was loaded, or failed to be, before, unless
// it is told to say so.
func (a *App) reload(why string, always bool) error {
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()

	table, err := a.config.LoadRules()
	if err != nil {
		a.refuse(err, why, always)
		return err
	}
	_, failed := a.rules.last()
	same := table.Hash() == a.limiter.Table().Hash()
	if same && failed == nil && !always {
		return nil
	}

	// The point of no return: nothing below can fail.
	a.keys.Use(table)
	agreed := a.agree(table)
	a.limiter.Swap(table)
	agreed()
	if !same {
		a.stores.forget()
	}
	a.rules.generation.Add(1)
	a.reloaded(table)
	a.rules.set(nil)
	a.log.Info("rules loaded", "reason", why, "rules", len(table.Rules()), "domains", len(table.Domains()), "hash", table.Hash())
	a.warn(table)
	return nil
}

// reloaded tells all who count that a table is in force.
func (a *App) reloaded(table *rule.Table) {
	a.metrics.Reloaded(table, time.Now())
	if a.envoy != nil {
		a.envoy.Reloaded(table)
	}
}

// listFiles returns the files of lists that the rules name: those in force, and,
// after a reload failed, those that it failed of.
func (a *App) listFiles(failure error) []string {
	files := slices.Clone(a.limiter.Table().Files())
	if faults, ok := errors.AsType[*rule.Errors](failure); ok {
		files = append(files, faults.Files...)
		for _, e := range faults.List {
			files = append(files, e.File)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// refuse says that rules could not be loaded and the ones before stay.
func (a *App) refuse(err error, why string, always bool) {
	_, before := a.rules.last()
	if !always && before != nil && before.Error() == err.Error() {
		return
	}
	a.metrics.ReloadFailed()
	if a.envoy != nil {
		a.envoy.ReloadFailed()
	}
	a.rules.set(err)
	for _, fault := range faults(err) {
		a.log.Error("rules refused: keeping the old ones", append([]any{"reason", why}, fault...)...)
	}
}

// warn logs what the rules may not mean.
func (a *App) warn(table *rule.Table) {
	for _, f := range audit.Table(table) {
		if f.Severity >= audit.Warning {
			a.log.Warn("rules", "file", f.File, "line", f.Line, "finding", f.ID, "error", f.Text, "hint", f.Hint)
		}
	}
	a.warnOfGossip(table)
	a.warnOfSecret(table)
}

// faults are the attributes to log for each fault that err is made of.
func faults(err error) [][]any {
	if rules, ok := errors.AsType[*rule.Errors](err); ok {
		all := make([][]any, 0, len(rules.List))
		for _, e := range rules.List {
			all = append(all, []any{"file", e.File, "line", e.Line, "error", e.Problem, "hint", e.Hint})
		}
		return all
	}
	if config, ok := errors.AsType[*settings.Error](err); ok {
		return [][]any{{"error", config.Error(), "hint", config.Hint}}
	}
	return [][]any{{"error", err.Error()}}
}

func (r *ruleset) set(failure error) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	r.failure, r.failed = failure, time.Now()
}

// last returns when the last reload was, and what became of it.
func (r *ruleset) last() (at time.Time, failure error) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	return r.failed, r.failure
}
