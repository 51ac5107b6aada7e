package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"stint/internal/wording"
	"stint/store/memory"
)

// newStore returns the store that the configuration asks for, with the counts of the
// state file where one is named. A file that cannot be used is set aside and the
// store is empty: a service that limits from nothing is better than none.
func newStore(c *Config, log *slog.Logger) (*memory.Store, error) {
	options := memory.Options{Budget: c.Memory}
	if c.State == "" {
		return memory.New(options), nil
	}
	if err := c.tryFolder(); err != nil {
		return nil, err
	}
	began := time.Now()
	store, err := memory.LoadFile(c.State, options)
	switch {
	case err == nil:
		log.Info("counts loaded", "file", c.State, "keys", store.Stats().Keys, "took", since(began))
		return store, nil
	case errors.Is(err, fs.ErrNotExist):
		log.Info("no counts to load, they begin anew", "file", c.State)
		return memory.New(options), nil
	case !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrNewer):
		return nil, c.at("state", "cannot read "+c.State+": "+wording.Cause(err), "name a file that this user may read, or one that is not there yet")
	}
	aside, failed := memory.SetAside(c.State)
	if failed != nil {
		return nil, c.at("state", "cannot set aside "+c.State+" ("+err.Error()+"): "+wording.Cause(failed), "move the file away, or name another one")
	}
	log.Error("counts cannot be used, they begin anew", "file", c.State, "problem", err, "aside", aside, "hint", stateHint(err))
	return memory.New(options), nil
}

// stateHint says what to do about a file that was set aside.
func stateHint(err error) string {
	if errors.Is(err, memory.ErrNewer) {
		return "a later version of stint wrote it: stop, move the file back and start that version to go on with its counts"
	}
	return "look for a faulty disk or another writer; delete the file that was set aside if nobody needs it"
}

// tryFolder sees whether the folder of the state file can be written, so that this is
// found out now and not when the first counts are saved.
func (c *Config) tryFolder() error {
	folder := filepath.Dir(c.State)
	probe, err := os.CreateTemp(folder, filepath.Base(c.State)+".try-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return c.at("state", "cannot write in the folder "+folder+": "+wording.Cause(err), "make the folder, and let this user write in it")
	}
	return nil
}

// save writes the state file. What goes wrong is logged and counted, and the file stays
// as it was.
func (a *App) save(level slog.Level) {
	began := time.Now()
	keys := a.stores.memory.Stats().Keys
	err := a.stores.memory.SaveFile(a.config.State)
	a.metrics.Saved(time.Now(), err)
	if err != nil {
		a.log.Error("counts not saved", "file", a.config.State, "problem", err,
			"hint", "see that the disk has room and the folder can be written; until then a restart goes back to the last counts that were saved")
		return
	}
	a.log.Log(context.Background(), level, "counts saved", "file", a.config.State, "keys", keys, "took", since(began))
}

// since is a time for the log.
func since(began time.Time) string { return time.Since(began).Round(time.Millisecond).String() }
