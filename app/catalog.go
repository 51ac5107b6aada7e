package app

import (
	"context"
	"time"

	"stint/internal/config"
	"stint/server/httpapi"
	"stint/telemetry"
)

// closeBook lets go of the rules on disk.
func (a *App) closeBook() {
	if err := a.book.Close(); err != nil {
		a.log.Error("rules per API not closed", "error", err)
	}
}

// greetCatalog logs which rules per API are in force at the start.
func (a *App) greetCatalog() {
	if len(a.config.Catalog) > 0 || a.config.CatalogDB != "" {
		a.sayCatalog("start")
	}
}

func (a *App) sayCatalog(why string) {
	c := a.book.Catalog()
	a.log.Info("catalog loaded", "reason", why, "rules", c.Len(), "generation", c.Generation(), "hash", c.Hash())
}

// watchCatalog begins to look for changes of the files of rules per API.
func (a *App) watchCatalog(ctx context.Context) {
	a.follow(ctx, "catalog", config.NewWatcher, a.config.Catalog, func(why string) []string {
		// The error has been logged, and the old rules stay.
		_ = a.retrying(a.reloadCatalog(why, false))
		return nil
	})
}

// reloadCatalog reads the files of rules per API again and puts them in force, all or
// nothing. It does nothing where they look as they did, unless it is told to.
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
		a.sayCatalog(why)
	}
	return err
}

// catalogStatus is what /readyz and /v1/limits say of rules per API.
func (a *App) catalogStatus() *httpapi.CatalogStatus {
	c := a.book.Catalog()
	s := &httpapi.CatalogStatus{Rules: c.Len(), Generation: c.Generation(), Hash: c.Hash()}
	if last := a.book.Loads(); last.Failure != nil {
		s.ReloadError = last.At.UTC().Format(time.RFC3339) + ": " + last.Failure.Error()
	}
	return s
}

// catalogStats is what metrics say of them.
func (a *App) catalogStats() telemetry.CatalogStats {
	c, loads := a.book.Catalog(), a.book.Loads()
	return telemetry.CatalogStats{
		Rules: c.Len(), Generation: c.Generation(), Hash: c.Hash(),
		Refused: loads.Refused, LastFailed: loads.Failure != nil,
	}
}
