// Command library limits its own loop, without a service, a rule file or a network.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"stint"
	"stint/store/memory"
)

func main() { run(os.Stdout) }

func run(out io.Writer) {
	// Create limit and store once; both are safe for any number of goroutines.
	limit := stint.MustLimit(stint.Spec{
		Algorithm: stint.TokenBucket,
		Requests:  5, Per: time.Second, // the rate
		Burst: 3, // at once
	})
	store := memory.New(memory.Options{})

	for i := range 5 {
		// One call, no allocation. The key selects the bucket.
		d := store.Take("user=42", limit, 1)
		if d.Allowed {
			fmt.Fprintf(out, "%d: allowed, %d left\n", i, d.Remaining)
			continue
		}
		fmt.Fprintf(out, "%d: denied, wait %v\n", i, d.RetryAfter.Round(time.Millisecond))
		time.Sleep(d.RetryAfter) // after exactly this long the same take passes
	}
}
