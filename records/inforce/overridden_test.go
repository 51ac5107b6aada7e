package inforce_test

import (
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/records"
	"stint/records/inforce"
	"stint/rule/rulefile"
)

// The last end is that of the longest limit that the rule has, or that an override in force gives it; an override that
// ends sooner counts until then. Changes are seen some seconds later.
func TestOverridden(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {requests: 5, per: 1h}}]\n")})
	testkit.Must(t, err)
	override := func(subject, name string, per time.Duration, until time.Time) records.Override {
		return records.Override{Target: subject, Rule: name, Per: per, Until: until}
	}
	file := samples.File(
		t, override("user=a", "api/user", time.Minute, time.Time{}), override("user=b", "other", 100*time.Hour, time.Time{}),
		records.Override{Target: "user=c", Rule: "api/user", Burst: 7}, // does not fit
		records.Override{Target: "user=d", Rule: "api/user", Unlimited: true},
	)
	o := inforce.NewOverridden(recordsOf(t, file))
	ends := func(l *stint.Limit) stint.Instant { return stint.At(now).Add(l.Spec().Per) }
	is := func(at time.Time, want time.Duration) {
		t.Helper()
		if got := o.Until(table.Rules()[0], at, ends); got != stint.At(now.Add(want)) {
			t.Errorf("%v, want %v", got.Sub(stint.At(now)), want)
		}
	}
	put := func(o records.Override) {
		t.Helper()
		_, err := file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Put: o}}}, now)
		testkit.Must(t, err)
	}
	is(now, time.Hour)
	put(override("user=0*", "api/user", 3*time.Hour, now.Add(2*time.Hour)))
	is(now.Add(9*time.Second), time.Hour)
	is(now.Add(10*time.Second), 2*time.Hour)
	put(override("user=1*", "api/user", 3*time.Hour, time.Time{}))
	put(override("user=2*", "api/user", 3*time.Hour, now.Add(time.Hour)))
	is(now.Add(time.Minute), 3*time.Hour)
	_, err = file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Delete: override("user=1*", "api/user", 0, now).ID()}}}, now)
	testkit.Must(t, err)
	is(now.Add(2*time.Minute), 2*time.Hour)
	is(now.Add(2*time.Hour), time.Hour)
}
