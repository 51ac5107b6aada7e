package stores

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"stint"
	"stint/app/settings"
	"stint/internal/system"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
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
