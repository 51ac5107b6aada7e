package stores

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/internal/system"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/rule"
	"stint/store/memory"
)

const (
	// journalTimeout is how long a durable take may wait for the disk.
	journalTimeout = 2 * time.Second

	// journalSize is the size of the journal at which the state file is saved, so that the journal can be
	// emptied.
	journalSize = 64 << 20

	// journalEvery is the time between two checks of the journal.
	journalEvery = time.Second
)

// durable is the store in memory with the journal of its durable takes. Such a take is answered when it is
// on disk. If the journal cannot be written the take fails, and a guard follows the policy of its rule.
type durable struct {
	stores  *Stores
	guarded stint.Store
}

// openDurable returns the store in memory with its journal.
func (st *Stores) openDurable() *durable {
	d := &durable{stores: st}
	local := memory.New(memory.Options{Budget: st.config.Memory, Clock: st.config.Clock})
	d.guarded = guard.New(journaled{d}, guard.Options{Timeout: journalTimeout, Local: local, OnChange: st.journalChanged})
	return d
}

// Decide implements stint.Store.
func (d *durable) Decide(ctx context.Context, call *stint.Call) error {
	for i := range call.Takes {
		if transaction.Durable(&call.Takes[i]) {
			return d.guarded.Decide(ctx, call)
		}
	}
	return d.stores.memory.Decide(ctx, call)
}

// journaled decides calls with durable takes, and waits until they are on disk.
type journaled struct{ *durable }

// Decide implements stint.Store. A call that fails before it was decided is not charged.
func (j journaled) Decide(ctx context.Context, call *stint.Call) error {
	ctx.Deadline() // the guard counts from here
	file, err := j.stores.openJournal()
	if err != nil {
		return err
	}
	if err := file.Err(); err != nil {
		return err
	}
	if err := j.stores.memory.Decide(ctx, call); err != nil {
		return err
	}
	if err := file.Sync(ctx); err != nil {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	return nil
}

// journalChanged logs that durable rules follow their policy, or no longer.
func (st *Stores) journalChanged(now guard.Status) {
	if now.Away {
		st.log.Error("durable takes cannot be saved: their rules follow on_store_failure", "file", st.config.State, "error", now.Err,
			"hint", "see that the disk has room and the folder can be written; the journal is tried again every second")
		return
	}
	st.log.Info("durable takes are saved again", "file", st.config.State)
}

// openJournal returns the journal. The first durable take begins a new file of it.
func (st *Stores) openJournal() (*system.Journal, error) {
	if j := st.journal.Load(); j != nil {
		return j, nil
	}
	st.saving.Lock()
	defer st.saving.Unlock()
	if j := st.journal.Load(); j != nil {
		return j, nil
	}
	j, err := system.OpenJournal(st.state, st.memory.JournalHead())
	if err != nil {
		return nil, fmt.Errorf("cannot begin a journal: %w", err)
	}
	st.journal.Store(j)
	return j, nil
}

// replay replays the journal into the store in memory. A journal that is of no
// use stops the start: to go on without it would give durable limits a fresh start.
func (st *Stores) replay() error {
	began := time.Now()
	found, err := system.ReplayJournal(st.state, system.JournalReader{Head: st.memory.ReplayHead, Record: st.memory.Replay})
	if err != nil {
		return st.config.Fault("state", "cannot read the journal of durable limits: "+text.Cause(err),
			"look for a faulty disk or a state file that does not belong to it; to start without what it has, move the files "+st.state+".journal-* away")
	}
	if found.Records > 0 || found.Torn > 0 {
		st.log.Info("durable takes loaded", "file", st.config.State, "records", found.Records, "torn_bytes", found.Torn, "took", since(began))
	}
	return nil
}

// CheckDurable returns an error if rules are durable and a server that was looked at does not save takes.
func (st *Stores) CheckDurable(table *rule.Table) error {
	durable := table.Durable()
	st.hasDurable.Store(len(durable) > 0)
	for _, s := range st.servers {
		if w := s.unsaved.Load(); w != nil && len(durable) > 0 {
			return st.config.Fault("store", fmt.Sprintf("rule %s is durable, and %s", durable[0].Name, w.Problem), w.Hint)
		}
	}
	return nil
}

// record gives the journal a record of the store in memory.
func (st *Stores) record(record []byte) {
	if j := st.journal.Load(); j != nil {
		j.Append(record)
	}
}

// saveAll writes the state file, and drops the records of the journal that it has. A journal that failed
// begins a new file.
func (st *Stores) saveAll() error {
	j := st.journal.Load()
	if j == nil {
		return st.memory.SaveFile(st.state)
	}
	drop, err := j.Rotate()
	if err != nil {
		return err
	}
	if err := st.memory.SaveFile(st.state); err != nil {
		return err
	}
	return drop()
}

// checkJournal saves the state file if the journal is long or has failed.
func (st *Stores) checkJournal() {
	if j := st.journal.Load(); j != nil && (j.Size() > journalSize || j.Err() != nil) {
		st.save(slog.LevelDebug)
	}
}
