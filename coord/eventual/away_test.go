package eventual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/coord/eventual"
	"stint/guard"
	"stint/store/memory"
)

// guarded starts a node around a guard around a store.
func guarded(t *testing.T, o eventual.Options) (*fleet, *shelf) {
	t.Helper()
	server := &shelf{Store: memory.New(memory.Options{})}
	g := guard.New(server, guard.Options{Timeout: 10 * time.Millisecond, Local: memory.New(memory.Options{})})
	return startOn(t, g, 1, o), server
}

var errGone = errors.New("gone")

// While the store is away a node goes on for three intervals, then the policy answers; what
// passed meanwhile is told when the store is back, and nothing twice.
func TestAway(t *testing.T) {
	share := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: stint.MaxPer})
	for _, test := range []struct {
		name   string
		policy stint.Failure
		passes int // of 20 takes
	}{{"allow", stint.Allow, 20}, {"deny", stint.Deny, 0}, {"local", stint.Local, 5}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, server := guarded(t, eventual.Options{})
				ask := func() stint.Decision {
					one := take("a", thousand, 1)
					one.OnFailure, one.Local = test.policy, share
					return f.decide(t, 0, one)[0]
				}
				for range 10 {
					ask()
				}
				pass(150 * time.Millisecond)
				server.fail.Store(&errGone)
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
				server.fail.Store(nil)
				pass(2 * time.Second)
				if d := ask(); d.Degraded || !d.Allowed {
					t.Errorf("%+v, when the store is back", d)
				}
				pass(200 * time.Millisecond)
				if d := f.stored(t, "a", thousand); d.Remaining != int64(1000-counted-1) {
					t.Errorf("%d are left, want %d", d.Remaining, 1000-counted-1)
				}
			})
		})
	}
}

// A key that is not known is answered by the policy while the store is away, and read when
// it is back.
func TestUnknownWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, server := guarded(t, eventual.Options{})
		server.fail.Store(&errGone)
		denied := take("a", thousand, 1)
		denied.OnFailure = stint.Deny
		other := denied
		other.Key = "b"
		for range 10 {
			if d := f.decide(t, 0, denied)[0]; d.Allowed || !d.Degraded {
				t.Fatalf("%+v", d)
			}
			if d := f.decide(t, 0, denied, other); d[0].Allowed || !d[1].Degraded {
				t.Fatalf("%+v", d)
			}
		}
		if n := f.nodes[0].Stats().Keys; n != 0 {
			t.Errorf("%d keys of which nothing is known", n)
		}
		server.fail.Store(nil)
		pass(2 * time.Second)
		f.decide(t, 0, denied) // the guard tries
		if d := f.decide(t, 0, denied)[0]; !d.Allowed || d.Degraded {
			t.Errorf("%+v", d)
		}
	})
}

// Without a guard the error of the store is that of the call, and nothing is kept of it.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.store.fail.Store(&errGone)
		for _, takes := range [][]stint.Take{{take("a", thousand, 1)}, {take("a", thousand, 1), take("b", thousand, 1)}} {
			call := stint.Call{Takes: takes}
			if err := f.nodes[0].Decide(context.Background(), &call); !errors.Is(err, errGone) {
				t.Errorf("%v", err)
			}
		}
		f.store.fail.Store(nil)
		if d := f.decide(t, 0, take("a", thousand, 1))[0]; !d.Allowed || d.Remaining != 999 {
			t.Errorf("%+v", d)
		}
		if err := f.nodes[0].Decide(context.Background(), &stint.Call{Takes: []stint.Take{{Key: "a"}}}); !errors.Is(err, stint.ErrNoLimit) {
			t.Errorf("%v", err)
		}
		mixed := stint.Call{Takes: []stint.Take{take("a", thousand, 1), take("a", fast, 1)}}
		if err := f.nodes[0].Decide(context.Background(), &mixed); !errors.Is(err, stint.ErrMixedLimits) {
			t.Errorf("%v", err)
		}
	})
}

// A store that panics keeps nobody waiting.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		panics := true
		f.store.seen = func(*stint.Call) {
			if panics {
				panic("gone")
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			f.decide(t, 0, take("a", thousand, 1))
		}()
		panics = false
		if d := f.decide(t, 0, take("a", thousand, 1))[0]; !d.Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// Who waits for a key that is being read goes when its caller does; all others have one
// read between them.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.store.seen = func(*stint.Call) { pass(50 * time.Millisecond) }
		results := make(chan error, 30)
		for i := range 30 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if i == 29 {
					ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
					pass(time.Millisecond)
				}
				defer cancel()
				results <- f.nodes[0].Decide(ctx, &stint.Call{Takes: []stint.Take{take("a", thousand, 1)}})
			}()
		}
		failed := 0
		for range 30 {
			if err := <-results; errors.Is(err, context.DeadlineExceeded) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if n := f.nodes[0].Stats().Reads; n != 1 || failed != 1 {
			t.Errorf("%d reads, %d went", n, failed)
		}
	})
}
