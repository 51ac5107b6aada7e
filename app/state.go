package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"stint/fleet/quota"
	"stint/internal/system"
	"stint/internal/text"
	"stint/store/memory"
)

// newStore returns the configured store in memory, with the counts of the state file if there is
// one. The process holds the file until the stores are closed. If the file is damaged newStore
// renames it and starts with an empty store: a service that starts at zero is better than none.
func (a *App) newStore() (*memory.Store, error) {
	c := &a.config
	options := memory.Options{Budget: c.Memory, Clock: c.Clock}
	if c.State == "" {
		return memory.New(options), nil
	}
	if err := a.lockState(); err != nil {
		return nil, err
	}
	began := time.Now()
	store, err := memory.LoadFile(a.state, options)
	switch {
	case err == nil:
		a.log.Info("counts loaded", "file", c.State, "keys", store.Stats().Keys, "took", since(began))
		return store, nil
	case errors.Is(err, fs.ErrNotExist):
		a.log.Info("no counts to load: starting without them", "file", c.State)
		return memory.New(options), nil
	case !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrNewer):
		return nil, c.Fault("state", "cannot read "+c.State+": "+text.Cause(err), "name a file that this user may read, or one that is not there yet")
	}
	aside, failed := memory.SetAside(a.state)
	if failed != nil {
		return nil, c.Fault("state", "cannot set aside "+c.State+" ("+err.Error()+"): "+text.Cause(failed), "move the file away, or name another one")
	}
	a.log.Error("counts cannot be used: starting without them", "file", c.State, "error", err, "moved_to", aside, "hint", stateHint(err))
	return memory.New(options), nil
}

// lockState resolves the links of the state file, checks that a file can be written there, and
// locks it for this process: two writers would replace each other's counts.
func (a *App) lockState() error {
	c := &a.config
	var err error
	if a.state, err = system.LinkTarget(c.State); err != nil {
		return c.NoFolder(filepath.Dir(c.State), err)
	}
	if err = c.TryFolder(a.state); err != nil {
		return err
	}
	a.stores.lock, err = system.TakeLock(a.state)
	switch {
	case errors.Is(err, system.ErrHeld):
		return c.Fault("state", c.State+" is in use: "+err.Error(), "end that process first, or give each process a file of its own")
	case errors.Is(err, errors.ErrUnsupported):
		a.log.Warn("cannot lock the state file", "file", c.State, "error", err, "hint", "see to it that no other process uses the file")
	case err != nil:
		return c.Fault("state", "cannot lock "+c.State+": "+text.Cause(err), "see that this user may write to "+a.state+".lock, and that its file system has locks")
	}
	return nil
}

// stateHint returns what to do about a file that was renamed.
func stateHint(err error) string {
	if errors.Is(err, memory.ErrNewer) {
		return "a later version of stint wrote it: stop, move the file back and start that version to go on with its counts"
	}
	return "look for a faulty disk or another writer; delete the file that was set aside if nobody needs it"
}

// save writes the state file. It logs and counts errors, after which the old file stays.
func (a *App) save(level slog.Level) {
	began := time.Now()
	keys := a.stores.memory.Stats().Keys
	err := a.stores.memory.SaveFile(a.state)
	a.metrics.Saved(time.Now(), err)
	if err != nil {
		a.log.Error("counts not saved", "file", a.config.State, "error", err,
			"hint", "see that the disk has room and the folder can be written; until then a restart goes back to the last counts that were saved")
		return
	}
	a.log.Log(context.Background(), level, "counts saved", "file", a.config.State, "keys", keys, "took", since(began))
}

// quotas returns the names of all servers, and their stores with the local shares of this process.
func (s *stores) quotas() (names []string, list []*quota.Store) {
	for _, one := range s.servers {
		name := one.name
		if len(s.servers) == 1 {
			name = "" // all keys are there, whatever it is called
		}
		names, list = append(names, name), append(list, one.shares)
	}
	return names, list
}

// loadShares reads the local shares from the state file and removes it, if counts are at a server.
// Shares that are not in the file count as used up.
func (a *App) loadShares() {
	if a.config.State == "" || len(a.stores.servers) == 0 {
		return
	}
	names, list := a.stores.quotas()
	n, err := quota.ReadFile(a.state, names, list)
	switch {
	case err == nil:
		a.log.Info("local shares loaded", "file", a.config.State, "keys", n)
	case errors.Is(err, fs.ErrNotExist):
		a.log.Info("no local shares to load: they begin used up", "file", a.config.State)
	case errors.Is(err, quota.ErrDamaged):
		aside, failed := memory.SetAside(a.state)
		a.log.Error("local shares cannot be loaded: they begin used up", "file", a.config.State, "error", errors.Join(err, failed), "moved_to", aside,
			"hint", "look for a faulty disk or another writer; a file with the counts of the store in memory is of no use with --store "+a.config.StoreName())
	default:
		a.log.Error("local shares cannot be loaded: they begin used up", "file", a.config.State, "error", err, "hint", "see that this user may read and remove the file")
	}
}

// saveShares writes the local shares to the state file.
func (a *App) saveShares() {
	names, list := a.stores.quotas()
	err := quota.WriteFile(a.state, names, list)
	a.metrics.Saved(time.Now(), err)
	if err != nil {
		a.log.Error("local shares not saved", "file", a.config.State, "error", err,
			"hint", "see that the disk has room and the folder can be written; the shares begin used up at the next start")
		return
	}
	a.log.Info("local shares saved", "file", a.config.State)
}

// since returns the time since began, for the log.
func since(began time.Time) string { return time.Since(began).Round(time.Millisecond).String() }
