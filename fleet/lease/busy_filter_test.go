package lease

import (
	"testing"
	"time"
)

// A key is busy by many takes in one second, or by fewer for some time.
func TestBusyFilter(t *testing.T) {
	for _, test := range []struct {
		takes int // in each of ten seconds
		busy  int // in which of them the key is busy, from 1; 0: never
	}{
		{7, 0}, {11, 0}, {13, 4}, {15, 3}, {16, 1}, {1000, 1},
	} {
		filter, busy := new(busyFilter), 0
		for second := 1; second <= 10 && busy == 0; second++ {
			for range test.takes {
				if filter.busy(1, Moment{Mono: int64(second) * int64(time.Second)}) {
					busy = second
					break
				}
			}
		}
		if busy != test.busy {
			t.Errorf("%d takes a second: busy in second %d, want %d", test.takes, busy, test.busy)
		}
	}
}
