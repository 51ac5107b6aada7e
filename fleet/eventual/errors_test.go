package eventual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/eventual"
)

var errGone = errors.New("gone")

// Without a guard, Decide returns the store's error, and the node remembers nothing of it.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.Store.Fail.Store(&errGone)
		for _, takes := range [][]stint.Take{{take("a", thousand, 1)}, {take("a", thousand, 1), take("b", thousand, 1)}} {
			call := stint.Call{Takes: takes}
			if err := f.Nodes[0].Decide(context.Background(), &call); !errors.Is(err, errGone) {
				t.Errorf("%v", err)
			}
		}
		f.Store.Fail.Store(nil)
		if d := f.Decide(t, 0, take("a", thousand, 1))[0]; !d.Allowed || d.Remaining != 999 {
			t.Errorf("%+v", d)
		}
		if err := f.Nodes[0].Decide(context.Background(), &stint.Call{Takes: []stint.Take{{Key: "a"}}}); !errors.Is(err, stint.ErrNoLimit) {
			t.Errorf("%v", err)
		}
		mixed := stint.Call{Takes: []stint.Take{take("a", thousand, 1), take("a", fast, 1)}}
		if err := f.Nodes[0].Decide(context.Background(), &mixed); !errors.Is(err, stint.ErrMixedLimits) {
			t.Errorf("%v", err)
		}
	})
}

// A store that panics keeps nobody waiting.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		panics := true
		f.Store.Seen = func(*stint.Call) {
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
			f.Decide(t, 0, take("a", thousand, 1))
		}()
		panics = false
		if d := f.Decide(t, 0, take("a", thousand, 1))[0]; !d.Allowed {
			t.Errorf("%+v", d)
		}
	})
}

// Who waits for a key that is being read goes when its caller does; all others have one
// read between them.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.Store.Seen = func(*stint.Call) { pass(50 * time.Millisecond) }
		results := make(chan error, 30)
		for i := range 30 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if i == 29 {
					ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
					pass(time.Millisecond)
				}
				defer cancel()
				results <- f.Nodes[0].Decide(ctx, &stint.Call{Takes: []stint.Take{take("a", thousand, 1)}})
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
		if n := f.Nodes[0].Stats().Reads; n != 1 || failed != 1 {
			t.Errorf("%d reads, %d went", n, failed)
		}
	})
}
