package inforce

import (
	"path/filepath"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
	"stint/records/apikey"
)

var start = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

// A key identifies its subject and the plan of the subject, until the second of its end.
func TestIdentify(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	r := NewRecords(f, RecordsOptions{})
	put := func(edits ...records.Edit) {
		t.Helper()
		_, err := f.Apply(t.Context(), records.Change{Edits: edits}, start)
		testkit.Must(t, err)
	}
	secret, err := apikey.New("acme")
	testkit.Must(t, err)
	other, err := apikey.New("acme")
	testkit.Must(t, err)
	key := records.APIKey{Hash: secret.Key().Hash(), Last: secret.Key().LastFour(), Subject: "user=a=b", Until: start.Add(time.Hour)}
	put(records.Edit{Put: key}, records.Edit{Put: records.Subject{Name: "user=a=b", Kind: records.User, Plan: "pro", PlanUntil: start.Add(time.Minute)}})
	good := secret.Reveal()
	check := func(text string, now time.Time, wantSubject, wantPlan string) {
		t.Helper()
		if subject, plan, err := r.identify(text, now); subject != wantSubject || plan != wantPlan || err != nil {
			t.Errorf("identify(%.4s...) = %q, %q, %v, want %q, %q", text, subject, plan, err, wantSubject, wantPlan)
		}
	}
	check(good, start, "user=a=b", "pro")
	check(good, start.Add(time.Minute), "user=a=b", "")
	check(good, start.Add(time.Hour-1), "user=a=b", "")
	check(good, start.Add(time.Hour), "", "")
	check(other.Reveal(), start, "", "")
	for _, text := range []string{"", "x", good + "x", good[:len(good)-1] + "-"} {
		check(text, start, "", "")
	}
	put(records.Edit{Put: records.Subject{Name: "user=a=b", Kind: records.User, Plan: "max"}})
	check(good, start, "user=a=b", "max")
	put(records.Edit{Delete: key.ID()})
	check(good, start, "", "")
	testkit.Must(t, f.Close())
	if subject, _, err := r.identify(other.Reveal(), start); err == nil || subject != "" {
		t.Errorf("a key that is in no cache, in a closed file: %q, %v", subject, err)
	}
}
