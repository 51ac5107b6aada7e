package otlp

import (
	"sync"
	"sync/atomic"
	"testing"
)

// At most a number of decisions are traced in a second, by any number of goroutines.
func TestBudget(t *testing.T) {
	b := budget{most: 100}
	for second := range int64(3) {
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					if b.take(second) {
						passed.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("second %d: %d passed, want 100", second, n)
		}
	}
}
