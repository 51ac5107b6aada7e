package app

import (
	"context"
	"errors"

	"stint/app/settings"
	"stint/internal/config"
	"stint/server/access"
)

// openAccess reads the callers of admin, if there is a file of them.
func (a *App) openAccess() error {
	list, err := a.config.LoadAccess()
	if fault, ok := errors.AsType[*access.Error](err); ok {
		return a.config.Fault("admin-access", fault.Error(), fault.Hint)
	}
	a.access.Store(list)
	return err
}

// accessFile returns the callers of the file; nil if there is none.
func (a *App) accessFile() func() *access.List {
	if a.config.AdminAccess == "" {
		return nil
	}
	return a.access.Load
}

// renewAccess reads the callers of admin again. On an error it logs the error and keeps the old ones.
func (a *App) renewAccess(why string) error {
	list, err := a.config.LoadAccess()
	if err != nil {
		hint := ""
		if fault, ok := errors.AsType[*access.Error](err); ok {
			hint = fault.Hint
		} else if fault, ok := errors.AsType[*settings.Error](err); ok {
			hint = fault.Hint
		}
		a.log.Error("callers of admin refused: keeping the old ones", "reason", why, "error", err, "hint", hint)
		return err
	}
	if list != nil {
		a.access.Store(list)
		a.log.Info("callers of admin loaded", "reason", why, "callers", list.Len())
	}
	return nil
}

// watchAccess reads the callers of admin again whenever their file changes.
func (a *App) watchAccess(ctx context.Context) {
	if a.config.AdminAccess == "" {
		return
	}
	a.follow(ctx, "callers of admin", config.NewWatcher, []string{a.config.AdminAccess}, func(why string) []string {
		// renewAccess has logged the error and kept the old ones.
		_ = a.retrying(a.renewAccess(why))
		return nil
	})
}
