package app

import (
	"context"
	"time"

	"stint/internal/config"
	"stint/server/httpapi"
	"stint/telemetry"
)

// closeBook closes the rules on disk.
func (a *App) closeBook() {
	if err := a.book.Close(); err != nil {
		a.log.Error("rules per API not closed", "error", err)
	}
}

// logCatalog logs the rules per API at the start.
func (a *App) logCatalog() {
	if len(a.config.Catalog) > 0 || a.book.Changeable() {
		a.logCatalogLoaded("start")
	}
}

func (a *App) logCatalogLoaded(why string) {
	c := a.book.Catalog()
	a.log.Info("catalog loaded", "reason", why, "rules", c.Len(), "generation", c.Generation(), "hash", c.Hash())
}

// watchCatalog starts to watch the files of rules per API for changes.
func (a *App) watchCatalog(ctx context.Context) {
	a.follow(ctx, "catalog", config.NewWatcher, a.config.Catalog, func(why string) []string {
		// reloadCatalog has logged the error and kept the old rules.
		_ = a.retrying(a.reloadCatalog(why, false))
		return nil
	})
}

// reloadCatalog reads the files of rules per API again and uses them, all or nothing. If they have
// not changed it does so only with always.
func (a *App) reloadCatalog(why string, always bool) error {
	if len(a.config.Catalog) == 0 {
		return nil
	}
	news, err := a.book.Reload(always, a.config.Catalog...)
	switch {
	case err != nil && news:
		for _, fault := range faults(err) {
			a.log.Error("catalog refused: keeping the old one", append([]any{"reason", why}, fault...)...)
		}
	case news:
		a.logCatalogLoaded(why)
	}
	return err
}

// catalogStatus returns the rules per API for /readyz and /v1/limits.
func (a *App) catalogStatus() *httpapi.CatalogStatus {
	c := a.book.Catalog()
	s := &httpapi.CatalogStatus{Rules: c.Len(), Generation: c.Generation(), Hash: c.Hash()}
	if last := a.book.Loads(); last.Failure != nil {
		s.ReloadError = last.At.UTC().Format(time.RFC3339) + ": " + last.Failure.Error()
	}
	return s
}

// catalogStats returns their numbers for metrics.
func (a *App) catalogStats() telemetry.CatalogStats {
	c, loads := a.book.Catalog(), a.book.Loads()
	return telemetry.CatalogStats{
		Rules: c.Len(), Generation: c.Generation(), Hash: c.Hash(),
		Refused: loads.Refused, LastFailed: loads.Failure != nil,
	}
}
