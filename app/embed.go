package app

import (
	"context"
	"net/http"
	"slices"

	"stint/limiter"
	"stint/records"
	"stint/telemetry"
)

// This file is for programs that embed the service, see settings.Config.Embedded.

// Limiter returns the limiter of the service. It decides from New until Stop.
func (a *App) Limiter() *limiter.Limiter { return a.limiter }

// Admin returns a new handler of everything that the admin address serves, with its own check of
// callers and their roles.
func (a *App) Admin() http.Handler { return a.adminHandler() }

// Identify returns the function that knows the API keys; nil if there are no records.
func (a *App) Identify() func(key string) (subject, plan string, err error) { return a.identify() }

// Records returns the records; nil if there are none.
func (a *App) Records() *records.File { return a.records }

// Ready reports whether the service can decide: it has started, and has read what it shares with
// other nodes.
func (a *App) Ready() bool { return a.ready() }

// Failed returns a channel with the errors after which the service should not continue. Run reads
// it.
func (a *App) Failed() <-chan error { return a.failed }

// registry returns where the metrics are registered.
func (a *App) registry() *telemetry.Metrics {
	if a.config.Collectors != nil {
		return telemetry.New(a.config.Collectors)
	}
	return telemetry.New(telemetry.NewRegistry())
}

// UseRules replaces the configured rule files, and reads them as Reload does, unless they have not
// changed. On an error the old rules and files stay. It is safe for concurrent use, but must not be
// called during Stop.
func (a *App) UseRules(files []string, why string) error {
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	before := a.config.Rules
	a.config.Rules = slices.Clone(files)
	err := a.reloadLocked(why, false)
	if err != nil {
		a.config.Rules = before
	}
	if err == nil && a.rules.unwatch != nil && !slices.Equal(before, files) {
		a.watchLocked(a.rules.background)
	}
	return err
}

// watch starts to watch the rule files for changes, and ends the watch of earlier ones.
func (a *App) watch(ctx context.Context) {
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	a.watchLocked(ctx)
}

// watchLocked is watch for callers that hold a.rules.mu.
func (a *App) watchLocked(ctx context.Context) {
	if a.rules.unwatch != nil {
		a.rules.unwatch()
	}
	a.rules.background = ctx
	ctx, a.rules.unwatch = context.WithCancel(ctx)
	a.watchRulesLocked(ctx)
}
