package redis_test

import (
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// TestCloseBesideServer closes a store of a Cluster beside callers that ask for the server of a key, which asks for
// the layout in the background.
func TestCloseBesideServer(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
	for range 100 {
		s, err := redis.Open("redis+cluster://127.0.0.1:1", redis.Options{}) // nobody listens there
		testkit.Must(t, err)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() { s.Server(&stint.Take{Key: "a", Limit: limit, Cost: 1}) })
		}
		callers.Go(s.Close)
		callers.Wait()
		s.Server(&stint.Take{Key: "a", Limit: limit, Cost: 1})
	}
}
