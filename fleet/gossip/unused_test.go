package gossip

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// A store without peers wakes for nothing until it is used, then it removes keys that are untouched.
func TestUnusedStoreSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, StoreOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		rounds := func() uint64 {
			s.node.session.mu.Lock()
			defer s.node.session.mu.Unlock()
			return s.node.session.round
		}
		time.Sleep(time.Minute)
		if n := rounds(); n != 0 {
			t.Errorf("%d rounds before the first use", n)
		}
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second})
		call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: limit, Cost: 1}}}
		if err := s.Decide(ctx, &call); err != nil {
			t.Fatal(err)
		}
		if keys := s.node.Stats().Keys; keys != 1 {
			t.Fatalf("%d keys after one take", keys)
		}
		time.Sleep(10 * time.Minute)
		if keys := s.node.Stats().Keys; keys != 0 {
			t.Errorf("%d keys after ten minutes, want none", keys)
		}
	})
}
