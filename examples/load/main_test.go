package main

import (
	"context"
	"fmt"
	"os"

	"stint"
	"stint/store/memory"
)

func Example() {
	const now = stint.Instant(1767225600_000_000) // 2026-01-01
	store := memory.New(memory.Options{Clock: func() stint.Instant { return now }})
	if err := run(context.Background(), os.Stdout, store, "../rules/give.yaml"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// nobody has said how busy it is: 10 of 150 jobs pass, 0 of them above the limit
	// at 20 %: 100 of 150 jobs pass, 90 of them above the limit
	// at 90 %: 10 of 150 jobs pass, 0 of them above the limit
	// at 69 %, asked each time: 100 of 150 jobs pass, 90 of them above the limit
}
