package stores

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// A rule with plans has its loss until the longest period of them ends: clients of each plan are refused until
// that of their own does.
func TestLossOfPlans(t *testing.T) {
	const day = 24 * time.Hour
	for pro, want := range map[string]time.Duration{"30m": time.Hour, "100d": 100 * day} {
		table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
plans: {free: {calls: {requests: 5, per: 1h}}, pro: {calls: {requests: 50, per: ` + pro + `}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: calls, durable: true}}]
`)})
		testkit.Must(t, err)
		st := new(Stores)
		st.watchLosses(table)
		at := time.Now().UTC()
		st.losses.byPlace = map[string][]transaction.Loss{"state": {{At: stint.At(at)}}}
		until := at.Truncate(time.Hour).Add(time.Hour)
		if want > time.Hour {
			until = time.Unix(0, 0).UTC().Add((at.Sub(time.Unix(0, 0))/want + 1) * want)
		}
		if all := st.Losses(); len(all) != 1 || all[0].Rule != "api/user" || !all[0].Until.Equal(until) {
			t.Errorf("with %s: %+v, want until %v", pro, all, until)
		}
	}
}

// A journal that cannot be read stops the start, and the error names the file.
func TestUnreadableJournal(t *testing.T) {
	config := settings.Default()
	config.State = filepath.Join(t.TempDir(), "state")
	st := &Stores{config: &config, state: config.State, memory: memory.New(memory.Options{})}
	file := config.State + ".journal-00000000000000000001"
	testkit.Must(t, os.Mkdir(file, 0o700))
	if _, err := st.replay(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error about %s", err, file)
	}
}

// calling is a log whose lines call a function.
type calling struct {
	slog.Handler
	call func()
}

func (c calling) Handle(context.Context, slog.Record) error {
	c.call()
	return nil
}

// No lock is held while a loss is logged or an owner is asked for its end: both may take long, and saves of the state
// file ask whether rules are durable.
func TestLossesHoldNoLock(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {requests: 5, per: 1h, durable: true}}]\n")})
	testkit.Must(t, err)
	st, asked := new(Stores), 0
	ask := func() {
		if free := st.losses.mu.TryLock(); !free {
			t.Error("the lock is held")
			return
		}
		st.losses.mu.Unlock()
		asked++
	}
	st.log = slog.New(calling{slog.NewTextHandler(io.Discard, nil), ask})
	st.options.OnLost = func(string) { ask() }
	st.options.LossEnds = func(_ *rule.Rule, lost stint.Instant) stint.Instant { ask(); return lost.Add(time.Hour) }
	st.watchLosses(table)
	loss := transaction.Loss{At: stint.At(time.Now())}
	st.noteLosses("state", []transaction.Loss{loss})
	loss.Accept("api/user")
	st.noteLosses("state", []transaction.Loss{loss})
	if st.Losses(); asked < 5 { // for the end and its line twice, and OnLost
		t.Errorf("asked %d times", asked)
	}
}
