package connect

import (
	"fmt"
	"testing"
)

// SlotOf returns the slot that Redis uses.
func TestOf(t *testing.T) {
	for text, want := range map[string]int{"": 0, "123456789": 12739, "foo": 12182, "a": 15495} {
		if got := SlotOf(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// Tags returns n tags, which share all slots evenly.
func TestTags(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 1000, 4096} {
		for i, tag := range Tags(n) {
			if at := SlotOf(tag) * n / Count; at != i {
				t.Fatalf("of %d partitions number %d has the tag %q, of number %d", n, i, tag, at)
			}
		}
	}
}

// Keys share the partitions evenly: of a hundred thousand keys the fullest of 256 partitions has at
// most a quarter more than its share.
func TestPartitionsAreEven(t *testing.T) {
	const keys, partitions = 100_000, 64
	counts := make([]int, partitions)
	for i := range keys {
		counts[PartitionOf(fmt.Sprintf("api/user=%d", i), partitions)]++
	}
	for p, n := range counts {
		if mean := keys / partitions; n > mean*5/4 || n < mean*3/4 {
			t.Errorf("partition %d has %d keys, want about %d", p, n, mean)
		}
	}
}
