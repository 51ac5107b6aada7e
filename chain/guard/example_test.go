package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/store/memory"
)

// remote is a store on the network that does not answer.
type remote struct{}

func (remote) Decide(ctx context.Context, _ *stint.Call) error {
	<-ctx.Done()
	return errors.Join(stint.ErrUnknown, ctx.Err())
}

// A login is denied while the store does not answer, and other requests have a tenth of
// their limit in this process.
func Example() {
	store := guard.New(remote{}, guard.Options{
		Timeout: 10 * time.Millisecond,
		Local:   memory.New(memory.Options{}),
	})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 20, Per: time.Hour})
	share := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour})
	for range 3 {
		call := stint.Call{Takes: []stint.Take{
			{Key: "api/user=42", Limit: limit, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Local, Local: share}, Independent: true},
			{Key: "login/user=42", Limit: limit, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Deny}, Independent: true},
		}}
		if err := store.Decide(context.Background(), &call); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("api:", call.Results[0].Allowed, "login:", call.Results[1].Allowed, "degraded:", call.Results[0].Degraded)
	}
	fmt.Println("away:", store.Status().Away)
	// Output:
	// api: true login: false degraded: true
	// api: true login: false degraded: true
	// api: false login: false degraded: true
	// away: true
}
