package denycache_test

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/store/memory"
)

// counted counts the calls of a store.
type counted struct {
	stint.Store
	asked int
}

func (c *counted) Decide(ctx context.Context, call *stint.Call) error {
	c.asked++
	return c.Store.Decide(ctx, call)
}

// A client that does not wait is denied without the store. A store that others share needs
// Options.Notices, which a redis.Store implements, and Run.
func Example() {
	inner := &counted{Store: memory.New(memory.Options{})}
	store := denycache.New(inner, denycache.Options{})
	limit := stint.MustLimit(stint.Spec{Requests: 2, Per: 24 * time.Hour, FromFirst: true})
	passed := 0
	for range 1000 {
		call := stint.Call{Takes: []stint.Take{{Key: "user=42", Limit: limit, Cost: 1}}}
		if err := store.Decide(context.Background(), &call); err != nil {
			fmt.Println(err)
		} else if call.Results[0].Allowed {
			passed++
		}
	}
	fmt.Println(passed, "passed, the store was asked", inner.asked, "times")
	// Output: 2 passed, the store was asked 3 times
}
