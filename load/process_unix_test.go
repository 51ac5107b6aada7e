//go:build unix

package load

import "testing"

// Busy computation increases the CPU time.
func TestProcessorTime(t *testing.T) {
	before, ok := processorTime()
	if !ok {
		t.Fatal("the system does not tell")
	}
	for n := 0; ; n++ {
		if after, _ := processorTime(); after > before {
			return
		}
		if n > 1e9 {
			t.Fatal("no processor time was used")
		}
	}
}
