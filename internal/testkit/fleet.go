package testkit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
)

// Node is what one process of a fleet decides with: a store around a store, which has work
// to do beside until its context is done.
type Node interface {
	stint.Store
	Run(ctx context.Context)
}

// Fleet is several nodes around one store.
type Fleet[N Node] struct {
	Nodes []N
	Store *SharedStore
	Stop  func() // ends the nodes; the end of the test does too
}

// StartFleet runs so many nodes around a store until the test ends; each is made of the Shelf
// that they all ask.
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

// Decide asks a node, by its number.
func (f *Fleet[N]) Decide(t testing.TB, node int, takes ...stint.Take) []stint.Decision {
	t.Helper()
	return Decide(t, f.Nodes[node], takes...)
}

// Stored returns what the store says of a key, whatever is wrong with the Shelf.
func (f *Fleet[N]) Stored(t testing.TB, key stint.Key, limit *stint.Limit) stint.Decision {
	t.Helper()
	return Decide(t, f.Store.Store, stint.Take{Key: key, Limit: limit})[0]
}

// Decide asks a store.
func Decide(t testing.TB, s stint.Store, takes ...stint.Take) []stint.Decision {
	t.Helper()
	call := stint.Call{Takes: takes}
	if err := s.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results
}

// SharedStore is a store that counts what it is asked, and can fail. It is safe for concurrent use
// if what is around is; Seen is set while nobody asks.
type SharedStore struct {
	stint.Store
	Calls atomic.Int64
	Fail  atomic.Pointer[error] // what it answers instead of deciding; nil: it decides
	Lose  atomic.Pointer[error] // what it answers after it has decided; nil: that
	Seen  func(*stint.Call)     // is shown each call first, if there is one
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
