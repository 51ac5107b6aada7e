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

// ruleset is the generation of the rules in use, and the result of the last reload.
type ruleset struct {
	mu         sync.Mutex    // held during a reload, so that there is one at a time; guards App.config.Rules, App.plans, background and unwatch
	generation atomic.Uint64 // number of tables since the start

	background context.Context    //nolint:containedctx // for watches that begin later; ends with Stop
	unwatch    context.CancelFunc // ends the watch of the rule files

	stateMu sync.Mutex // guards the fields below; held only briefly
	failure error      // error of the last reload; nil: it succeeded
	failed  time.Time
}

// Reload reads the rules again and uses them, all or nothing: on an error the old rules stay, and
// the log, a metric and /readyz report that until a reload succeeds. why is for the log. It is safe
// for concurrent use. After a failure for lack of file descriptors or memory it is tried again
// every second.
//
// Keys keep their use. Rules per API are reloaded apart: one of the two may be refused and the
// other used. The certificates of the listeners and the callers of admin are read again too; their
// errors are logged, and the old ones stay. Nothing else is read again.
func (a *App) Reload(why string) error {
	a.config.Notify.Reloading()
	err := a.retrying(a.renew(why), a.renewAccess(why), a.reload(why, true), a.reloadCatalog(why, true))
	status := "serving"
	if err != nil {
		status += "; the last reload was refused"
	}
	_ = a.config.Notify.Ready(status) // Run has reported if that fails
	return err
}

// retryEvery is the time between two tries of a reload that lacked file descriptors or memory.
const retryEvery = time.Second

// retrying joins the errors of a reload. If the process or the machine had no file descriptor or no
// memory left it schedules another try, as no file will change when there is one again.
func (a *App) retrying(errs ...error) error {
	err := errors.Join(errs...)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		select {
		case a.retry <- struct{}{}:
		default: // one is scheduled already
		}
	}
	return err
}

// runRetries repeats such reloads until ctx is done.
func (a *App) runRetries(ctx context.Context) {
	const why = "tried again"
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.retry:
		}
		system.Wait(ctx, retryEvery)
		// The errors are in the log.
		_ = a.retrying(a.renew(why), a.renewAccess(why), a.reload(why, false), a.reloadCatalog(why, false))
	}
}

// reload loads the rules. If the same rules were loaded or refused before it does nothing, except
// with always.
func (a *App) reload(why string, always bool) error {
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	return a.reloadLocked(why, always)
}

// reloadLocked is reload for callers that hold a.rules.mu.
func (a *App) reloadLocked(why string, always bool) error {
	table, err := a.loadLocked()
	if err != nil {
		a.refuse(err, why, always)
		return err
	}
	_, failed := a.rules.last()
	same := table.Hash() == a.limiter.Table().Hash()
	if same && failed == nil && !always {
		return nil
	}

	// Nothing below can fail.
	a.keys.Use(table)
	announced := a.stores.Announce(table)
	a.limiter.Swap(table)
	announced()
	if !same {
		a.stores.Forget()
	}
	a.rules.generation.Add(1)
	a.reloaded(table, false)
	a.rules.set(nil)
	a.log.Info("rules loaded", "reason", why, "rules", len(table.Rules()), "domains", len(table.Domains()), "hash", table.Hash())
	a.logRefusedPlansLocked()
	a.warn(table)
	return nil
}

// reloaded passes a new table to the facts and the metrics. first says that it is that of the start.
func (a *App) reloaded(table *rule.Table, first bool) {
	a.facts.reloaded(table, first)
	a.metrics.Reloaded(table, time.Now())
	if a.envoy != nil {
		a.envoy.Reloaded(table)
	}
}

// listFiles returns the list files that the rules name: those in use, and after a failed reload
// also those of the refused rules.
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

// refuse logs that rules could not be loaded and the old ones stay.
func (a *App) refuse(err error, why string, always bool) {
	_, before := a.rules.last()
	if !always && before != nil && before.Error() == err.Error() {
		return
	}
	a.metrics.ReloadFailed()
	a.facts.mark("failed reload", "")
	if a.envoy != nil {
		a.envoy.ReloadFailed()
	}
	a.rules.set(err)
	for _, fault := range faults(err) {
		a.log.Error("rules refused: keeping the old ones", append([]any{"reason", why}, fault...)...)
	}
}

// warn logs rules that may not mean what their author intended.
func (a *App) warn(table *rule.Table) {
	for _, f := range audit.Table(table) {
		if f.Severity >= audit.Warning {
			a.log.Warn("likely mistake in the rules", "file", f.File, "line", f.Line, "finding", f.ID, "error", f.Text, "hint", f.Hint)
		}
	}
	a.stores.Warn(table)
}

// faults returns the log attributes for each fault of err.
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

// last returns the time and the error of the last reload.
func (r *ruleset) last() (at time.Time, failure error) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	return r.failed, r.failure
}
