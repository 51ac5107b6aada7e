package memory_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"stint"
	"stint/store/memory"
)

// A program that keeps its counts over a restart: a used up limit stays used up.
func ExampleLoadFile() {
	dir, err := os.MkdirTemp("", "stint")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // a left over folder does no harm
	file := filepath.Join(dir, "counts")
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 3, Per: time.Hour})

	for _, life := range []string{"first", "second"} {
		store, err := memory.LoadFile(file, memory.Options{})
		if errors.Is(err, fs.ErrNotExist) {
			store, err = memory.New(memory.Options{}), nil
		}
		if err != nil { // damaged, or of a later version: see SetAside
			fmt.Println(err)
			return
		}
		for range 2 {
			fmt.Println(life, store.Take("user=42", limit, 1).Allowed)
		}
		if err := store.SaveFile(file); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// first true
	// first true
	// second true
	// second false
}

// A worker that takes as many jobs from a queue as the limit still has, up to ten.
func ExampleStore_TakeAtMost() {
	store := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 14, Per: time.Hour})

	for range 3 {
		d := store.TakeAtMost("jobs", limit, 10)
		fmt.Println(d.Allowed, d.Charged)
	}
	// Output:
	// true 10
	// true 4
	// false 0
}
