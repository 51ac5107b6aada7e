package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/coord/lease"
	"stint/internal/fleettest"
	"stint/store/memory"
)

// garbled is a store that cannot read the state of the key "bad", once it is.
type garbled struct {
	stint.Store
	is atomic.Bool
}

// Decide is part of stint.Store.
func (g *garbled) Decide(ctx context.Context, call *stint.Call) error {
	well, bad := stint.Call{}, new(stint.StateError)
	var of []int
	for i, t := range call.Takes {
		if g.is.Load() && t.Key == "bad" {
			bad.Takes = append(bad.Takes, i)
			continue
		}
		well.Takes, of = append(well.Takes, t), append(of, i)
	}
	if len(bad.Takes) == 0 {
		return g.Store.Decide(ctx, call)
	}
	call.Results = make([]stint.Decision, len(call.Takes))
	if err := g.Store.Decide(ctx, &well); err != nil {
		return err
	}
	for n, i := range of {
		call.Results[i] = well.Results[n]
	}
	return bad
}

// A message in which the store cannot read one key brings all others what they are lent.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &garbled{Store: memory.New(memory.Options{})}
		f := fleettest.Start(t, server, 1, func(s stint.Store) *lease.Store { return lease.New(s, lease.Options{}) })
		asked := 0
		f.Store.Seen = func(call *stint.Call) {
			for i := range call.Takes {
				if call.Takes[i].Key == "good" && call.Takes[i].Cost > 0 {
					asked++
				}
			}
		}
		round := func(n int) {
			for range n {
				pass(time.Millisecond)
				if d := f.Decide(t, 0, take("good", fast, 1))[0]; !d.Allowed {
					t.Fatalf("%+v", d)
				}
				call := stint.Call{Takes: []stint.Take{take("bad", fast, 1)}}
				err := f.Nodes[0].Decide(context.Background(), &call)
				if _, is := errors.AsType[*stint.StateError](err); err != nil && !is {
					t.Fatal(err)
				}
			}
		}
		round(1000)
		server.is.Store(true)
		asked = 0
		round(5000)
		if asked > 5 {
			t.Errorf("the good key asked the store %d times by itself while the bad one could not be read", asked)
		}
		server.is.Store(false)
		round(1000)
		asked = 0
		if round(1000); f.Nodes[0].Stats().Held == 0 || asked > 5 {
			t.Errorf("%+v when all can be read again; the good key asked the store %d times", f.Nodes[0].Stats(), asked)
		}
	})
}
