package app

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

// guarded starts a node with a guard around a store.
func guarded(t *testing.T, o eventual.Options) (*testkit.Fleet[*eventual.Store], *testkit.SharedStore) {
	t.Helper()
	server := &testkit.SharedStore{Store: memory.New(memory.Options{})}
	g := guard.New(server, guard.Options{Timeout: 10 * time.Millisecond, Local: memory.New(memory.Options{})})
	return startFleet(t, g, 1, o), server
}

var errGone = errors.New("gone")

// While the store is away a node goes on for three intervals, then the policy decides; the node
// reports its use when the store is back, and nothing twice.
func TestEventualAway(t *testing.T) {
	share := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: stint.MaxPer})
	for _, test := range []struct {
		name   string
		policy stint.Failure
		passes int // out of 20 takes
	}{{"allow", stint.Allow, 20}, {"deny", stint.Deny, 0}, {"local", stint.Local, 5}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, server := guarded(t, eventual.Options{})
				ask := func() stint.Decision {
					one := ownTake("a", thousandOnce, 1)
					one.Handling = &stint.Handling{Terms: one.Terms(), OnFailure: test.policy, Local: share}
					return f.Decide(t, 0, one)[0]
				}
				for range 10 {
					ask()
				}
				pass(150 * time.Millisecond)
				server.Fail.Store(&errGone)
				counted := 10
				for range 25 { // 250 ms
					pass(10 * time.Millisecond)
					if d := ask(); !d.Allowed || d.Degraded {
						t.Fatalf("%+v, in the first three intervals", d)
					}
					counted++
				}
				pass(300 * time.Millisecond)
				passed := 0
				for range 20 {
					d := ask()
					if !d.Degraded {
						t.Fatalf("%+v, after three intervals", d)
					}
					if d.Allowed {
						passed++
					}
				}
				if passed != test.passes {
					t.Errorf("%d passed, want %d", passed, test.passes)
				}
				server.Fail.Store(nil)
				pass(2 * time.Second)
				if d := ask(); d.Degraded || !d.Allowed {
					t.Errorf("%+v, when the store is back", d)
				}
				pass(200 * time.Millisecond)
				if d := f.Stored(t, "a", thousandOnce); d.Remaining != int64(1000-counted-1) {
					t.Errorf("%d are left, want %d", d.Remaining, 1000-counted-1)
				}
			})
		})
	}
}

// While the store is away the policy decides an unknown key; when the store is back the node reads
// the key.
func TestEventualUnknownWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, server := guarded(t, eventual.Options{})
		server.Fail.Store(&errGone)
		denied := ownTake("a", thousandOnce, 1)
		denied.Handling = &stint.Handling{Terms: denied.Terms(), OnFailure: stint.Deny}
		other := denied
		other.Key = "b"
		for range 10 {
			if d := f.Decide(t, 0, denied)[0]; d.Allowed || !d.Degraded {
				t.Fatalf("%+v", d)
			}
			if d := f.Decide(t, 0, denied, other); d[0].Allowed || !d[1].Degraded {
				t.Fatalf("%+v", d)
			}
		}
		if n := f.Nodes[0].Stats().Keys; n != 0 {
			t.Errorf("%d keys of which nothing is known", n)
		}
		server.Fail.Store(nil)
		pass(2 * time.Second)
		f.Decide(t, 0, denied) // the guard tries
		if d := f.Decide(t, 0, denied)[0]; !d.Allowed || d.Degraded {
			t.Errorf("%+v", d)
		}
	})
}
