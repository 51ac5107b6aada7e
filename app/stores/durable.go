package stores

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/internal/system"
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
// on disk. If the journal cannot be written the take fails, and a guard follows the policy of its rule. So it
// does after a loss, until its period ends or the loss is accepted.
type durable struct {
	stores  *Stores
	guarded *guard.Store
	loss    atomic.Pointer[transaction.Loss]
}

// openDurable returns the store in memory with its journal.
func (st *Stores) openDurable(loss transaction.Loss) *durable {
	d := &durable{stores: st}
	d.loss.Store(&loss)
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

// lostTakes returns the takes of a call that follow their policies after a loss.
func (d *durable) lostTakes(call *stint.Call) (lost []int) {
	loss := d.loss.Load()
	if loss.At == 0 {
		return nil
	}
	now := cmp.Or(call.At, d.stores.now())
	for i := range call.Takes {
		if loss.Refuses(&call.Takes[i], now) {
			lost = append(lost, i)
		}
	}
	return lost
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
	if err := call.Check(); err != nil {
		return err
	}
	lost := j.lostTakes(call)
	if len(lost) > 0 {
		err = j.decideRest(ctx, call, lost)
	} else {
		err = j.stores.memory.Decide(ctx, call)
	}
	if err != nil {
		return err
	}
	if err := file.Sync(ctx); err != nil {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	if len(lost) > 0 {
		return transaction.LostTakes(lost)
	}
	return nil
}

// decideRest decides the takes of a call that are not decided as one with lost ones. The others take
// nothing.
func (j journaled) decideRest(ctx context.Context, call *stint.Call, lost []int) error {
	corrupt := &stint.CorruptState{Takes: lost}
	rest := stint.Call{At: call.At, Takes: slices.Clone(call.Takes)}
	decided := func(i int) bool { return transaction.Decided(call, corrupt, i) }
	for i := range rest.Takes {
		t := &rest.Takes[i]
		if of := int(t.InsteadOf()); !decided(i) || of > 0 && of <= len(call.Takes) && !decided(of-1) {
			transaction.Peek(t)
			t.Independent, t.Borrows, t.Handling = true, 0, nil
		}
	}
	if err := j.stores.memory.Decide(ctx, &rest); err != nil {
		return err
	}
	call.SizeResults()
	copy(call.Results, rest.Results)
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
	return st.openJournalLocked()
}

// openJournalLocked is openJournal for a caller that holds st.saving.
func (st *Stores) openJournalLocked() (*system.Journal, error) {
	if j := st.journal.Load(); j != nil {
		return j, nil
	}
	j, err := system.OpenJournal(st.state, st.memory.JournalFrom(), st.memory.JournalHead())
	if err != nil {
		return nil, fmt.Errorf("cannot begin a journal: %w", err)
	}
	appendLoss(j, st.durable.loss.Load())
	if st.memory.JournalFrom() == 0 {
		st.memory.SetJournalFrom(cmp.Or(st.replayed.First, j.Number()))
	}
	st.unmarked.Store(true)
	st.journal.Store(j)
	return j, nil
}

// recordLoss begins a record of the journal with the loss, as JSON; all others are those of the store in memory.
const recordLoss = 'L'

// writeLoss appends a loss to the journal, unless nothing was lost, and waits until it is on disk.
func writeLoss(ctx context.Context, j *system.Journal, loss *transaction.Loss) error {
	if loss.At == 0 {
		return nil
	}
	appendLoss(j, loss)
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	return j.Sync(ctx)
}

// appendLoss appends a loss to the journal, unless nothing was lost.
func appendLoss(j *system.Journal, loss *transaction.Loss) {
	if loss.At > 0 {
		text, _ := json.Marshal(loss) // numbers and names
		j.Append(append([]byte{recordLoss}, text...))
	}
}

// accept accepts the loss for a rule, "" for all. It is in force and shown when it is on disk; after an error it is not, also
// not after a restart. The state file has to say first which file of the journal is written: without it the next start finds
// that something is missing, and takes that for a new loss.
func (d *durable) accept(ctx context.Context, rule string) error {
	st := d.stores
	st.saving.Lock()
	defer st.saving.Unlock()
	before := d.loss.Load()
	if before.At == 0 {
		return nil
	}
	j, err := st.openJournalLocked()
	if err != nil {
		return err
	}
	if st.unmarked.Load() {
		if err := st.saveAll(); err != nil {
			return fmt.Errorf("cannot save the state file: %w", err)
		}
	}
	after := *before
	after.Accept(rule)
	if err := writeLoss(ctx, j, &after); err != nil {
		err = fmt.Errorf("cannot write the journal: %w", err)
		_ = writeLoss(context.WithoutCancel(ctx), j, before) // else the disk may have the other one
		return err
	}
	d.loss.Store(&after)
	st.noteLosses(st.config.State, []transaction.Loss{after})
	return nil
}

// replay replays the journal into the store in memory, and returns the loss that it has or that it shows. A
// journal that is of no use stops the start: to go on without it would give durable limits a fresh start.
func (st *Stores) replay() (loss transaction.Loss, err error) {
	began := time.Now()
	st.replayed, err = system.ReplayJournal(st.state, system.JournalReader{From: st.memory.JournalFrom(), Head: st.memory.ReplayHead, Record: func(record []byte) error {
		if len(record) > 0 && record[0] == recordLoss {
			loss = transaction.Loss{} // nothing of a record before
			return json.Unmarshal(record[1:], &loss)
		}
		return st.memory.Replay(record)
	}})
	if err != nil {
		hint := "look for a faulty disk or a state file that does not belong to it"
		if errors.Is(err, fs.ErrPermission) {
			hint = "let this user read and write it"
		}
		return loss, st.config.Fault("state", "cannot read the journal of durable limits: "+err.Error(),
			hint+"; to start without what it has, move the files "+st.state+".journal-* away")
	}
	if found := &st.replayed; found.Records > 0 || found.Torn > 0 {
		st.log.Info("durable takes loaded", "file", st.config.State, "records", found.Records, "torn_bytes", found.Torn, "took", since(began))
	}
	if why := st.missing(); why != "" {
		loss.At = max(st.now(), loss.At+1)
		st.unmarked.Store(true)
		st.log.Warn("some durable takes are missing", "file", st.config.State, "error", why)
	}
	return loss, nil
}

// missing returns what is missing of the state file and the journal; "" if nothing is. A file of the journal that is
// cut at its end is whole: what is missing there had no answer.
func (st *Stores) missing() string {
	found, from := &st.replayed, st.memory.JournalFrom()
	switch {
	case st.stateLost:
		return "the state file cannot be used"
	case found.Damaged:
		return "the journal is damaged, or a file of it is gone"
	case from > 0 && (found.First > from || found.Last < from):
		return fmt.Sprintf("the journal lacks the file number %d, which the state file refers to", from)
	case from == 0 && found.First > 1:
		return "the state file is gone that the journal continues"
	}
	return ""
}

// CheckDurable returns an error if rules are durable and a server that was looked at does not save takes. It logs the
// losses that the journal has, when they are on disk: a loss that was noticed at this start must be one after a crash too.
// Call it after Warn.
func (st *Stores) CheckDurable(table *rule.Table) error {
	durable := table.Durable()
	if st.durable != nil {
		if st.durable.loss.Load().At > 0 && st.mustMark() {
			st.save(slog.LevelDebug) // if it fails the loss is in force and shown, and a further save comes in a second
		}
		st.noteLosses(st.config.State, lossesOf(st.durable.loss.Load()))
	}
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
// begins a new file. So does one that was loaded: its rules may not be durable any more, and the next start would
// put its old counts over those that are saved now. While saves fail they begin no further files: each try would leave
// one. When one succeeds at last, saveAll saves once more, with a new file.
func (st *Stores) saveAll() error {
	if st.journal.Load() == nil && !st.mustMark() && st.replayed.Files == 0 {
		return st.memory.SaveFile(st.state)
	}
	j, err := st.openJournalLocked()
	if err != nil {
		return err
	}
	again := st.drop != nil && j.Err() == nil // the last save failed, and the file that it began goes on
	if !again {
		if st.drop, err = j.Rotate(); err != nil {
			return err
		}
		st.unmarked.Store(true)
	}
	if err := writeLoss(context.Background(), j, st.durable.loss.Load()); err != nil {
		return err
	}
	st.memory.SetJournalFrom(j.Number())
	if err := st.memory.SaveFile(st.state); err != nil {
		return err
	}
	st.unmarked.Store(false)
	drop := st.drop
	st.drop = nil
	if err := drop(); err != nil || !again {
		return err
	}
	return st.saveAll() // the file has records that are older than these counts
}

// lossesOf returns a list of a loss, which is empty if nothing was lost.
func lossesOf(loss *transaction.Loss) (all []transaction.Loss) {
	if loss.At > 0 {
		all = append(all, *loss)
	}
	return all
}

// checkJournal saves the state file if the journal is long or has failed, or if the file does not say yet which file of
// the journal is written: the next start would not know that it is gone.
func (st *Stores) checkJournal() {
	if j := st.journal.Load(); j != nil && (j.Size() > journalSize || j.Err() != nil) || st.mustMark() {
		st.save(slog.LevelDebug)
	}
}

// mustMark reports whether the state file must say which file of the journal is written, or the journal that something
// was lost: the next start would not know it.
func (st *Stores) mustMark() bool { return st.unmarked.Load() && st.hasDurable() }
