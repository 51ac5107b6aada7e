package loadtest_test

import (
	"fmt"
	"time"

	"stint"
	"stint/loadtest"
)

// A program that calls a service in its own way stores what was allowed, and checks it.
func ExampleExcess() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Second, Burst: 2})
	passed := []loadtest.Passed{
		{Cost: 1, Sent: 0, Answered: 3 * time.Millisecond},
		{Cost: 1, Sent: 5 * time.Millisecond, Answered: 8 * time.Millisecond},
		{Cost: 1, Sent: 9 * time.Millisecond, Answered: 12 * time.Millisecond},
	}
	found := loadtest.Excess(limit, passed, loadtest.Phase{Error: -1})
	fmt.Println(found.Exceeded, found.Worst.Passed, "units in", found.Worst.Length, "s")
	// Output: true 3 units in 0.012 s
}
