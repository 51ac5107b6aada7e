package records

import (
	"fmt"
	"testing"
	"time"

	"stint/internal/testkit"
)

// A node whose clock is ahead deletes nothing that is in force on other nodes: no ban, no entry of the audit
// trail, and no outcome of an idempotency key. Nodes with the right time still delete what is old.
func TestSharedClockAhead(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 2)
	right, ahead := nodes[0], nodes[1]
	now := time.Now()
	change := func(n *sharer, text string, at time.Time) {
		t.Helper()
		_, err := n.Apply(t.Context(), Change{Edits: []Edit{{Put: Subject{Name: "user=1", Kind: User, Notes: text}}}, IdempotencyKey: text}, at)
		testkit.Must(t, err)
	}
	there := func(id ID) bool {
		t.Helper()
		agree(t, nodes...)
		_, ok, err := right.Get(id)
		testkit.Must(t, err)
		return ok
	}
	soon := Ban{Subject: "user=2", Until: now.Add(time.Hour)}
	old := Ban{Subject: "user=3", Until: now.Add(-endedFor - time.Hour)}
	_, err := right.Apply(t.Context(), Change{Edits: []Edit{{Put: soon}}}, now)
	testkit.Must(t, err)
	_, err = right.Apply(t.Context(), Change{Edits: []Edit{{Put: old}}}, old.Until.Add(-time.Hour))
	testkit.Must(t, err)
	wait(t, "each node knows the time of the server", func() bool {
		for _, n := range nodes {
			if n.copy.SafeTime(now).IsZero() {
				return false
			}
		}
		return true
	})
	for n := range 3 {
		change(ahead, fmt.Sprint("ahead-", n), now.AddDate(2, 0, n))
	}
	if there(old.ID()) {
		t.Error("a node whose clock is ahead does not delete what is old")
	}
	if !there(soon.ID()) {
		t.Error("a node whose clock is ahead has deleted a ban that is in force")
	}
	if got := len(trailOf(t, right.File)); got != 5 {
		t.Errorf("%d entries of the audit trail, want 5", got)
	}
	out, err := right.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: "ahead-0"}, now)
	if err != nil || !out.Repeated {
		t.Errorf("%v, %v for a repeat", out, err)
	}
	// The outcome of a node whose clock is late is kept for a day too.
	change(ahead, "late", now.AddDate(0, 0, -2))
	change(right, "next", now)
	agree(t, nodes...)
	out, err = right.Apply(t.Context(), Change{Edits: []Edit{{Put: subject}}, IdempotencyKey: "late"}, now)
	if err != nil || !out.Repeated {
		t.Errorf("%v, %v for a repeat after a late clock", out, err)
	}
}
