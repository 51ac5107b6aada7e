package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint"
)

func TestQueue(t *testing.T) {
	const s = 1_000_000
	for _, test := range []struct {
		name   string
		window int64
		times  []int64 // times of lines a, b, c, ... in order of arrival
		want   string  // lines and times in the order of decisions
		late   int64
	}{
		{"in order", 120 * s, []int64{1 * s, 2 * s, 3 * s}, "a1 b2 c3", 0},
		{"out of order", 120 * s, []int64{3 * s, 1 * s, 2 * s}, "b1 c2 a3", 0},
		{"same time", 120 * s, []int64{2 * s, 1 * s, 2 * s, 1 * s}, "b1 d1 a2 c2", 0},
		{"at the edge", 120 * s, []int64{200 * s, 80 * s, 199 * s}, "b80 c199 a200", 0},
		{"late", 120 * s, []int64{200 * s, 79 * s, 80 * s, 199 * s}, "b80 c80 d199 a200", 1},
		{"late behind what waits at the edge", 120 * s, []int64{80 * s, 200 * s, 10 * s}, "a80 c80 b200", 1},
		{"far jump", 120 * s, []int64{1 * s, 2 * s, 1e6 * s, 999_990 * s, 3 * s}, "a1 b2 e999880 d999990 c1000000", 1},
		{"no window", 0, []int64{5 * s, 4 * s, 5 * s, 6 * s, 5 * s}, "a5 b5 c5 d6 e6", 2},
		{"window of a microsecond", 1, []int64{5 * s, 5*s - 1, 5*s - 2}, "b4999999us c4999999us a5", 1},
		{"first line in 1970", 120 * s, []int64{60 * s, 1}, "b1us a60", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			q := NewQueue(test.window, func(at stint.Instant, ref uint32) error {
				if at%s == 0 {
					got = append(got, fmt.Sprintf("%c%d", 'a'+ref, at/s))
				} else {
					got = append(got, fmt.Sprintf("%c%dus", 'a'+ref, at))
				}
				return nil
			})
			for i, at := range test.times {
				if err := q.Put(stint.Instant(at), uint32(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := q.Flush(); err != nil {
				t.Fatal(err)
			}
			if line := strings.Join(got, " "); line != test.want || q.Late() != test.late {
				t.Errorf("decided %s, %d late; want %s, %d", line, q.Late(), test.want, test.late)
			}
		})
	}
}

// TestQueueRandom compares the queue with a simple implementation: each line gets its own time or
// that of the edge at its arrival, then all lines are sorted.
func TestQueueRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		window := random.Int64N(2000)
		spread := 1 + random.Int64N(4000)
		var want, got []waiting
		late := int64(0)
		q := NewQueue(window, func(at stint.Instant, ref uint32) error {
			got = append(got, waiting{at: at, seq: ref})
			return nil
		})
		newest, now := int64(-1), int64(1)
		for i := range uint32(300) {
			if random.IntN(50) == 0 {
				now += random.Int64N(10_000)
			}
			now += random.Int64N(100)
			at := max(1, now-random.Int64N(spread))
			newest = max(newest, at)
			seen := at
			if at < newest-window {
				seen = newest - window
				late++
			}
			want = append(want, waiting{at: stint.Instant(seen), seq: i})
			if err := q.Put(stint.Instant(at), i); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(want, earlier)
		if !slices.Equal(got, want) || q.Late() != late {
			t.Fatalf("window %d, spread %d: %d late, want %d, or another order", window, spread, q.Late(), late)
		}
	}
}
