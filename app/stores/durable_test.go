package stores

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/logging"
	"stint/internal/system"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
	"stint/telemetry"
)

// saving returns stores with a state file and a journal.
func saving(t *testing.T) *Stores {
	config := settings.Default()
	config.State = filepath.Join(t.TempDir(), "state")
	st := &Stores{config: &config, state: config.State}
	st.memory = memory.New(memory.Options{Journal: st.record})
	st.durable = st.openDurable(transaction.Loss{})
	t.Cleanup(func() {
		if j := st.journal.Load(); j != nil {
			testkit.Must(t, j.Close())
		}
	})
	return st
}

// keep decides a take of a key, durable or not.
func (st *Stores) keep(t *testing.T, durable bool) {
	t.Helper()
	one := stint.Take{Key: "a", Limit: stint.MustLimit(stint.Spec{Requests: 10, Per: stint.MaxPer}), Cost: 1}
	one.Handling = &stint.Handling{Terms: &stint.Terms{Domain: "api", Rule: "a", Durable: durable}}
	if d := testkit.Decide(t, st.durable, one)[0]; !d.Allowed {
		t.Fatalf("%+v", d)
	}
}

// restart returns stores with the state file and the journal of others, as after a crash of these, which have rules that
// are durable.
func (st *Stores) restart(t *testing.T) *Stores {
	t.Helper()
	if j := st.journal.Load(); j != nil {
		testkit.Must(t, j.Close())
	}
	next := &Stores{config: st.config, state: st.state, log: slog.New(slog.DiscardHandler)}
	next.options.OnLost = func(string) {}
	next.saves = logging.RetryLog{Log: next.log}
	next.Register(telemetry.New(telemetry.NewRegistry()))
	var err error
	next.memory, err = memory.LoadFile(st.state, memory.Options{Journal: next.record})
	if errors.Is(err, fs.ErrNotExist) {
		next.memory, err = memory.New(memory.Options{Journal: next.record}), nil
	}
	testkit.Must(t, err)
	loss, err := next.replay()
	testkit.Must(t, err)
	next.durable = next.openDurable(loss)
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte("domain: api\ndescriptors: [{key: a, rate_limit: {requests: 5, per: 100d, durable: true}}]\n")})
	testkit.Must(t, err)
	next.watchLosses(table)
	testkit.Must(t, next.CheckDurable(table))
	t.Cleanup(func() {
		if j := next.journal.Load(); j != nil {
			testkit.Must(t, j.Close())
		}
	})
	return next
}

// lost returns stores that lost their state file, of which the journal is the rest.
func lost(t *testing.T) *Stores {
	t.Helper()
	st := saving(t)
	st.keep(t, true)
	testkit.Must(t, errors.Join(st.saveAll(), st.saveAll(), os.Remove(st.state)))
	return st
}

// A loss that was accepted stays accepted after a crash. As long as the state file cannot be saved, after which the
// journal is no loss any more, nothing is accepted.
func TestAcceptedStays(t *testing.T) {
	st := lost(t)
	unblock := st.block(t)
	st = st.restart(t)
	if all := st.Losses(); len(all) != 1 {
		t.Fatalf("lost are %+v", all)
	}
	for range 2 {
		err := st.AcceptLoss(t.Context(), "")
		if all := st.Losses(); err == nil || len(all) != 1 || st.durable.loss.Load().Accepted("") {
			t.Errorf("accepted without a state file: %v, lost are %+v", err, all)
		}
	}
	unblock()
	testkit.Must(t, st.AcceptLoss(t.Context(), ""))
	if all := st.Losses(); len(all) != 0 {
		t.Errorf("after it is accepted lost are %+v", all)
	}
	for range 2 {
		st = st.restart(t)
		if all := st.Losses(); len(all) != 0 {
			t.Errorf("after a crash lost are %+v", all)
		}
	}
}

// A loss that was not accepted in time is not accepted after a restart either.
func TestNotAccepted(t *testing.T) {
	st := lost(t).restart(t)
	testkit.Must(t, st.saveAll())
	done, cancel := context.WithCancel(t.Context())
	cancel()
	failed := false
	for range 100 { // a disk may be so fast that the context does not matter
		before := *st.durable.loss.Load()
		if failed = st.AcceptLoss(done, "api/a") != nil; failed {
			if now := st.durable.loss.Load(); now.At != before.At || now.Accepted("api/a") {
				t.Errorf("in force is %+v", now)
			}
			break
		}
		loss := transaction.Loss{At: before.At + 1}
		st.durable.loss.Store(&loss)
	}
	if !failed {
		t.Fatal("no accept was too late")
	}
	st = st.restart(t)
	if all := st.Losses(); len(all) != 1 {
		t.Errorf("after a restart lost are %+v", all)
	}
}

// A loss is on disk before it is shown: it is one after a crash right after the start too.
func TestLossStays(t *testing.T) {
	st := saving(t)
	testkit.Must(t, st.saveAll())
	testkit.Must(t, os.Remove(st.state))
	st = st.restart(t)
	if len(st.Losses()) != 0 {
		t.Fatal("without a journal or a state file nothing can be lost")
	}
	loss := transaction.Loss{At: stint.At(time.Now())} // as of a state file that cannot be used, which was renamed
	st.unmarked.Store(true)
	st.durable.loss.Store(&loss)
	testkit.Must(t, st.CheckDurable(new(rule.Table)))
	if len(st.Losses()) != 1 || len(st.restart(t).Losses()) != 1 {
		t.Error("the loss is not there after a crash")
	}
}

// block makes saves of the state file fail until the returned function is called.
func (st *Stores) block(t *testing.T) (unblock func()) {
	testkit.Must(t, os.MkdirAll(filepath.Join(st.state+".tmp", "in the way"), 0o700))
	return func() { testkit.Must(t, os.RemoveAll(st.state+".tmp")) }
}

// After saves that failed, one that succeeds leaves no records that are older than its counts: the next start would put
// them over counts of takes that were not durable any more.
func TestSaveAfterFailures(t *testing.T) {
	st := saving(t)
	st.keep(t, true)
	unblock := st.block(t)
	if err := st.saveAll(); err == nil {
		t.Fatal("the state file is saved")
	}
	st.keep(t, true)
	for range 3 {
		st.keep(t, false)
	}
	unblock()
	testkit.Must(t, st.saveAll())
	var err error
	st.memory, err = memory.LoadFile(st.state, memory.Options{})
	testkit.Must(t, err)
	_, err = system.ReplayJournal(st.state, system.JournalReader{From: st.memory.JournalFrom(), Head: st.memory.ReplayHead, Record: st.memory.Replay})
	testkit.Must(t, err)
	one := stint.Take{Key: "a", Limit: stint.MustLimit(stint.Spec{Requests: 10, Per: stint.MaxPer})}
	if d := testkit.Decide(t, st.memory, one)[0]; d.Remaining != 5 {
		t.Errorf("%d of 10 remain after 5 takes", d.Remaining)
	}
}

// While the state file cannot be written saves begin no further files of the journal, also if it is long.
func TestLongJournalWithoutState(t *testing.T) {
	st := saving(t)
	long := st.state + ".journal-00000000000000000001"
	testkit.Must(t, errors.Join(os.WriteFile(long, nil, 0o600), os.Truncate(long, journalSize+1)))
	st.keep(t, true)
	unblock := st.block(t)
	files := func() int {
		all, err := filepath.Glob(st.state + ".journal-*")
		testkit.Must(t, err)
		return len(all)
	}
	for range 5 {
		if err := st.saveAll(); err == nil {
			t.Fatal("the state file is saved")
		}
	}
	if n := files(); n > 3 { // the long one, that of the take, and that of the saves
		t.Errorf("%d files", n)
	}
	unblock()
	testkit.Must(t, st.saveAll())
	if n, size := files(), st.journal.Load().Size(); n != 1 || size > 1000 {
		t.Errorf("%d files of %d bytes are left", n, size)
	}
}
