package stores

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

// State returns the path of the state file, with links resolved; "" if there is none.
func (st *Stores) State() string { return st.state }

// Save writes the state file at the end of a service, if it has one.
func (st *Stores) Save() {
	switch {
	case st.config.State == "":
	case st.OnNetwork():
		st.saveShares()
	default:
		st.save(slog.LevelInfo)
	}
}

// newStore returns the configured store in memory, with the counts of the state file if there is
// one. The process holds the file until the stores are closed. If the file is damaged newStore
// renames it and starts with an empty store: a service that starts at zero is better than none.
func (st *Stores) newStore() (*memory.Store, error) {
	c := st.config
	options := memory.Options{Budget: c.Memory, Clock: c.Clock, Namespace: c.Namespace, Journal: st.record}
	if c.State == "" {
		return memory.New(options), nil
	}
	if err := st.lockState(); err != nil {
		return nil, err
	}
	began := time.Now()
	store, err := memory.LoadFile(st.state, options)
	switch {
	case err == nil:
		st.log.Info("counts loaded", "file", c.State, "keys", store.Stats().Keys, "took", since(began))
		return store, nil
	case errors.Is(err, fs.ErrNotExist):
		st.log.Info("no counts to load: starting without them", "file", c.State)
		return memory.New(options), nil
	case !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrNewer):
		return nil, c.Fault("state", "cannot read "+c.State+": "+text.Cause(err), "name a file that this user may read, or one that is not there yet")
	}
	aside, failed := memory.SetAside(st.state)
	if failed != nil {
		return nil, c.Fault("state", "cannot set aside "+c.State+" ("+err.Error()+"): "+text.Cause(failed), "move the file away, or name another one")
	}
	st.stateLost = true
	st.log.Error("counts cannot be used: starting without them", "file", c.State, "error", err, "moved_to", aside, "hint", stateHint(err))
	return memory.New(options), nil
}

// lockState resolves the links of the state file, checks that a file can be written there, and
// locks it for this process: two writers would replace each other's counts.
func (st *Stores) lockState() error {
	c := st.config
	var err error
	if st.state, err = system.LinkTarget(c.State); err != nil {
		return c.NoFolder(filepath.Dir(c.State), err)
	}
	if err = c.TryFolder(st.state); err != nil {
		return err
	}
	st.lock, err = system.TakeLock(st.state)
	switch {
	case errors.Is(err, system.ErrHeld):
		return c.Fault("state", c.State+" is in use: "+err.Error(), "end that process first, or give each process a file of its own")
	case errors.Is(err, errors.ErrUnsupported):
		st.log.Warn("cannot lock the state file", "file", c.State, "error", err, "hint", "see to it that no other process uses the file")
	case err != nil:
		return c.Fault("state", "cannot lock "+c.State+": "+text.Cause(err), "see that this user may write to "+st.state+".lock, and that its file system has locks")
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

// save writes the state file. It logs and counts errors, after which the old file stays. While it fails, not each try
// is logged, but that at the end of a service, which has the level of a message.
func (st *Stores) save(level slog.Level) {
	st.saving.Lock()
	defer st.saving.Unlock()
	began := time.Now()
	keys := st.memory.Stats().Keys
	err := st.saveAll()
	st.metrics.Saved(time.Now(), err)
	if st.saves.Report(err, level >= slog.LevelInfo); err != nil {
		return
	}
	st.log.Log(context.Background(), level, "counts saved", "file", st.config.State, "keys", keys, "took", since(began))
}

// quotas returns the names of all servers, and their stores with the local shares of this process.
func (st *Stores) quotas() (names []string, list []*quota.Store) {
	for _, one := range st.servers {
		name := one.name
		if len(st.servers) == 1 {
			name = "" // all keys are there, whatever it is called
		}
		names, list = append(names, name), append(list, one.shares)
	}
	return names, list
}

// LoadShares reads the local shares from the state file and removes it, if counts are at a server.
// Shares that are not in the file count as used up.
func (st *Stores) LoadShares() {
	if st.config.State == "" || len(st.servers) == 0 {
		return
	}
	names, list := st.quotas()
	n, err := quota.ReadFile(st.state, names, list)
	switch {
	case err == nil:
		st.log.Info("local shares loaded", "file", st.config.State, "keys", n)
	case errors.Is(err, fs.ErrNotExist):
		st.log.Info("no local shares to load: they begin used up", "file", st.config.State)
	case errors.Is(err, quota.ErrDamaged):
		aside, failed := memory.SetAside(st.state)
		st.log.Error("local shares cannot be loaded: they begin used up", "file", st.config.State, "error", errors.Join(err, failed), "moved_to", aside,
			"hint", "look for a faulty disk or another writer; a file with the counts of the store in memory is of no use with --store "+st.config.StoreName())
	default:
		st.log.Error("local shares cannot be loaded: they begin used up", "file", st.config.State, "error", err, "hint", "see that this user may read and remove the file")
	}
}

// saveShares writes the local shares to the state file.
func (st *Stores) saveShares() {
	names, list := st.quotas()
	err := quota.WriteFile(st.state, names, list)
	st.metrics.Saved(time.Now(), err)
	if err != nil {
		st.log.Error("local shares not saved", "file", st.config.State, "error", err,
			"hint", "see that the disk has room and the folder can be written; the shares begin used up at the next start")
		return
	}
	st.log.Info("local shares saved", "file", st.config.State)
}

// since returns the time since began, for the log.
func since(began time.Time) string { return time.Since(began).Round(time.Millisecond).String() }
