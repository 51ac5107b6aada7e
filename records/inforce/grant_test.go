package inforce_test

import (
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/index"
	"stint/store/memory"
)

// A client has its grants from their begin to their end, to the second, beside its own plan and the default plan.
// Those of another limit, and of another client, do not count.
func TestGrants(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	grant := func(subject, id, limit string, units uint32, from time.Time) records.Grant {
		return records.Grant{Subject: subject, Name: id, Limit: limit, Units: units, Priority: records.GrantPriority, From: from, Until: begin.Add(time.Hour)}
	}
	file := samples.File(
		t,
		records.Subject{Name: "user=pro", Kind: records.User, Plan: "pro"},
		grant("user=pro", "a", "api", 100, time.Time{}), grant("user=pro", "b", "api", 1000, begin), grant("user=pro", "c", "export", 7, time.Time{}),
		grant("user=plain", "a", "api", 10, time.Time{}),
	)
	l := limiter.New(memory.New(memory.Options{}), planned(t), limiter.Options{Records: recordsOf(t, file)})
	limit := func(user string, at time.Time) int64 {
		t.Helper()
		req := request(1, "user", user)
		req.At = stint.At(at)
		var v limiter.Verdict
		testkit.Must(t, l.Decide(ctx, req, &v))
		return v.Limit
	}
	for _, step := range []struct {
		user string
		at   time.Time
		want int64
	}{
		{"pro", begin.Add(-time.Second), 150},
		{"pro", begin, 1150},
		{"pro", begin.Add(time.Hour - time.Second), 1150},
		{"pro", begin.Add(time.Hour), 50},
		{"plain", begin, 15},
		{"other", begin, 5},
	} {
		if got := limit(step.user, step.at); got != step.want {
			t.Errorf("%s at %v: limit %d, want %d", step.user, step.at.Sub(begin), got, step.want)
		}
	}
	_, err := file.Apply(ctx, records.Change{Edits: []records.Edit{{Delete: grant("user=pro", "b", "", 0, begin).ID()}}}, time.Now())
	testkit.Must(t, err)
	if got := limit("pro", begin); got != 150 {
		t.Errorf("limit %d after a grant was deleted", got)
	}
	forever := grant("user=other", "f", "api", 10, time.Time{})
	forever.Until = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	samples.Put(t, file, forever)
	if got := limit("other", begin); got != 15 {
		t.Errorf("limit %d with a grant that ends in the year 9999", got)
	}
}

// Records refuse the priority that limits give to a plan's own units, and set the one that limits expect.
func TestPriorities(t *testing.T) {
	if got, want := [2]uint8{index.PlanPriority, index.GrantPriority}, [2]uint8{limits.OwnPriority, limits.GrantPriority}; got != want {
		t.Errorf("priorities %v, want %v as in package limits", got, want)
	}
}
