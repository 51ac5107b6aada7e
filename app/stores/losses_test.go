package stores

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/transaction"
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
