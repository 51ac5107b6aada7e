package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// call 0: SERVING
	// call 1: SERVING
	// call 2: SERVING
	// call 3: SERVING
	// call 4: SERVING
	// call 5: ResourceExhausted: Request quota exceeded. Wait 1 hour and try again.
}
