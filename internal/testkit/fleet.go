package testkit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
)

// Node is the store of one process of a fleet. It uses another store, and does background work
// until the context of Run is done.
type Node interface {
	stint.Store
	Run(ctx context.Context)
}

// Fleet is several nodes with one store.
type Fleet[N Node] struct {
	Nodes []N
	Store *SharedStore
	Stop  func() // stops the nodes; the end of the test does so too
}

// StartFleet runs n nodes with a store until the test ends. The function node makes each of them
// from the SharedStore that all of them use.
func StartFleet[N Node](t testing.TB, store stint.Store, n int, node func(stint.Store) N) *Fleet[N] {
	t.Helper()
	f := &Fleet[N]{Store: &SharedStore{Store: store}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		s := node(f.Store)
		f.Nodes = append(f.Nodes, s)
		running.Go(func() { s.Run(ctx) })
	}
	f.Stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(f.Stop)
	return f
}

// Decide calls a node, by its number.
func (f *Fleet[N]) Decide(t testing.TB, node int, takes ...stint.Take) []stint.Decision {
	t.Helper()
	return Decide(t, f.Nodes[node], takes...)
}

// Stored returns the store's decision for a peek at a key, even if the SharedStore fails.
func (f *Fleet[N]) Stored(t testing.TB, key stint.Key, limit *stint.Limit) stint.Decision {
	t.Helper()
	return Decide(t, f.Store.Store, stint.Take{Key: key, Limit: limit})[0]
}

// Decide calls a store and returns the decisions.
func Decide(t testing.TB, s stint.Store, takes ...stint.Take) []stint.Decision {
	t.Helper()
	call := stint.Call{Takes: takes}
	Must(t, s.Decide(context.Background(), &call))
	return call.Results
}

// SharedStore is a store that counts its calls, and can fail. It is safe for concurrent use if the
// inner store is; set Seen while there are no calls.
type SharedStore struct {
	stint.Store
	Calls atomic.Int64
	Fail  atomic.Pointer[error] // the error to return instead of deciding; nil: it decides
	Lose  atomic.Pointer[error] // the error to return after it has decided; nil: none
	Seen  func(*stint.Call)     // gets each call first; may be nil
}

// Decide is part of stint.Store.
func (s *SharedStore) Decide(ctx context.Context, call *stint.Call) error {
	s.Calls.Add(1)
	if s.Seen != nil {
		s.Seen(call)
	}
	if err := s.Fail.Load(); err != nil {
		return *err
	}
	err := s.Store.Decide(ctx, call)
	if lost := s.Lose.Load(); lost != nil {
		return *lost
	}
	return err
}
