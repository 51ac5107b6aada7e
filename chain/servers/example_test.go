package servers_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"stint"
	"stint/chain/servers"
	"stint/store/memory"
)

// Two stores share the keys. On the network they would be Redis servers, each behind a guard of its
// own.
func ExampleNew() {
	store, err := servers.New([]servers.Server{
		{Name: "a:6379", Store: memory.New(memory.Options{})},
		{Name: "b:6379", Store: memory.New(memory.Options{})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	perUser := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})
	inAll := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour})
	call := stint.Call{Takes: []stint.Take{
		{Key: "user=42", Limit: perUser, Cost: 1},
		{Key: "all", Limit: inAll, Cost: 1},
	}}
	for range 3 {
		if err := store.Decide(context.Background(), &call); err != nil {
			log.Fatal(err)
		}
		d, _ := stint.Combine(call.Results)
		fmt.Println(d.Allowed, call.Results[0].Remaining, call.Results[1].Remaining)
	}
	// Output:
	// true 1 99
	// true 0 98
	// false 0 98
}
