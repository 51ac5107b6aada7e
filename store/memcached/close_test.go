package memcached_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
)

// TestCloseBesideCalls closes a store beside calls, some of whose callers leave. Later calls fail at once.
func TestCloseBesideCalls(t *testing.T) {
	server := testkit.StartMemcached(t)
	limit := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Algorithm: stint.TokenBucket})
	for round := range 100 {
		s, err := memcached.Open(server.URL(), memcached.Options{Namespace: "close", Connections: 1})
		testkit.Must(t, err)
		take := func(n int) stint.Take {
			return stint.Take{Key: stint.Key(fmt.Sprint("key", round, "-", n%3)), Limit: limit, Cost: 1}
		}
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for n := range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%2 == 0 {
						go cancel()
					}
					_ = s.Decide(ctx, &stint.Call{Takes: []stint.Take{take(n), take(n + 1)}}) // it may fail
					cancel()
				}
			})
		}
		callers.Go(s.Close)
		callers.Wait()
		if err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{take(0)}}); err == nil {
			t.Fatal("a closed store decides")
		}
	}
}
