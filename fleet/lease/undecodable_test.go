package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
)

// garbled is a store that cannot read the state of the key "bad", once it is.
type garbled struct {
	stint.Store
	is atomic.Bool
}

// Decide is part of stint.Store.
func (g *garbled) Decide(ctx context.Context, call *stint.Call) error {
	well, bad := stint.Call{}, new(stint.CorruptState)
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

// A message with one key that the store cannot decode still lends units of all other keys.
func TestUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &garbled{Store: memory.New(memory.Options{})}
		f := testkit.StartFleet(t, server, 1, func(s stint.Store) *lease.Store { return lease.New(s, lease.Options{}) })
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
				if _, is := errors.AsType[*stint.CorruptState](err); err != nil && !is {
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

// TestUndecodableWhole: where the store cannot read some state, what it was not asked for stands or
// is given back with what it was decided as one with, and the error names takes as the call does.
func TestUndecodableWhole(t *testing.T) {
	apart := func(t stint.Take) stint.Take { t.Independent = true; return t }
	cold := func(key stint.Key) stint.Take { return stint.Take{Key: key, Limit: fast, Cost: 3} }
	held := take("held", fast, 2)
	lost := errors.New("lost")
	for _, test := range []struct {
		name        string
		takes       []stint.Take
		fail        error
		undecodable []int
		spent       int64 // from the units of this node
		left        int64 // of the key "cold"
	}{
		{"all can be read", []stint.Take{held, cold("cold")}, nil, nil, 2, 997},
		{"decided as one", []stint.Take{held, cold("cold"), cold("bad")}, nil, []int{2}, 0, 1000},
		{"what is held is apart", []stint.Take{apart(held), cold("bad"), cold("cold")}, nil, []int{1}, 2, 1000},
		{"what cannot be read is apart", []stint.Take{held, apart(cold("bad")), cold("cold"), apart(cold("bad"))}, nil, []int{1, 3}, 2, 997},
		{"something else is apart", []stint.Take{held, cold("bad"), apart(cold("cold"))}, nil, []int{1}, 0, 997},
		{"it is denied", []stint.Take{held, apart(cold("bad")), {Key: "cold", Limit: fast, Cost: 1001}}, nil, []int{1}, 0, 1000},
		{"it fails", []stint.Take{held, apart(cold("cold"))}, lost, nil, 0, 1000},
		{"it fails, and what is held is apart", []stint.Take{apart(held), cold("cold")}, lost, nil, 0, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &testkit.UndecodableStore{Store: memory.New(memory.Options{}), Bad: func(key stint.Key) bool { return key == "bad" }}
				f := testkit.StartFleet(t, server, 1, func(s stint.Store) *lease.Store { return lease.New(s, lease.Options{}) })
				for range 310 { // not a multiple of the ticks, so that no report is in flight
					pass(time.Millisecond)
					f.Decide(t, 0, take("held", fast, 1))
				}
				if test.fail != nil {
					f.Store.Fail.Store(&test.fail)
				}
				before := f.Nodes[0].Held(&held)
				call := stint.Call{Takes: test.takes}
				err := f.Nodes[0].Decide(context.Background(), &call)
				var undecodable []int
				if said := transaction.Undecodable(err); said != nil {
					undecodable = said.Takes
				}
				if !slices.Equal(undecodable, test.undecodable) || test.fail != nil && !errors.Is(err, test.fail) {
					t.Errorf("%v, want that %d cannot be read", err, test.undecodable)
				}
				if spent := before - f.Nodes[0].Held(&held); before < 10 || spent != test.spent {
					t.Errorf("%d of %d that are held were spent, want %d", spent, before, test.spent)
				}
				if left := f.Stored(t, "cold", fast).Remaining; left != test.left {
					t.Errorf("%d are left of the other key, want %d", left, test.left)
				}
				for i := range call.Takes {
					if said := (&stint.CorruptState{Takes: test.undecodable}); test.fail == nil && transaction.Decided(&call, said, i) && call.Results[i].Limit != 1000 {
						t.Errorf("take %d: %+v", i, call.Results[i])
					}
				}
			})
		})
	}
}
