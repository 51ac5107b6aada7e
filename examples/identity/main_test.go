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
	// a stranger: "strangers of an address", 4 left
	// a browser: "strangers of an address", 3 left
	// the browser again: "each device", 19 left
	// a program: "each program", 49 left
	// ann: "each user", 99 left
	// ann's browser: "each user", 98 left
	// who says to be ann: "strangers of an address", 2 left
	// who makes up a device: "strangers of an address", 1 left
}
