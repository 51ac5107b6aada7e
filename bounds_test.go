package stint_test

import (
	"testing"

	"stint"
)

// passed plays a history and returns what passed, at the time it was let go.
func passed(h *history) []taken {
	var st stint.State
	var out []taken
	for _, try := range h.tries {
		if d := try.play(h.limit, &st); d.Allowed && try.cost > 0 {
			out = append(out, taken{int64(try.at.Add(d.Delay)), int64(try.cost)})
		}
	}
	return out
}

// most checks that between any two of the takes no more units passed than bound
// allows from the first to the second instant, both included.
func most(t *testing.T, takes []taken, bound func(from, to int64) int64) {
	t.Helper()
	for i := range takes {
		sum := int64(0)
		for j := i; j < len(takes); j++ {
			sum += takes[j].cost
			if most := bound(takes[i].at, takes[j].at); sum > most {
				t.Fatalf("%d units passed from +%dµs to +%dµs, at most %d may", sum, takes[i].at-int64(zero), takes[j].at-int64(zero), most)
			}
		}
	}
}

// In any interval of length T a steady token bucket passes at most burst + rate*T;
// one that is refilled in steps burst + requests for each multiple of per inside.
func TestBoundTokenBucket(t *testing.T) {
	eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == stint.TokenBucket }, func(t *testing.T, h *history) {
		spec := h.limit.Spec()
		per, requests := spec.Per.Microseconds(), int64(spec.Requests)
		most(t, passed(h), func(from, to int64) int64 {
			if spec.Step {
				return int64(spec.Burst) + requests*(to/per-from/per)
			}
			return int64(spec.Burst) + (to-from)*requests/per
		})
	})
}

// Any window of a sliding log, wherever it begins, has at most requests units, and two takes are at
// least min_interval apart.
func TestBoundSlidingLog(t *testing.T) {
	eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == stint.SlidingLog }, func(t *testing.T, h *history) {
		spec := h.limit.Spec()
		takes := passed(h)
		for i := range takes[:max(0, len(takes)-1)] {
			if apart := micros(takes[i+1].at - takes[i].at); apart < spec.MinInterval {
				t.Fatalf("two takes are %v apart, at least %v is asked", apart, spec.MinInterval)
			}
		}
		for i := range takes {
			sum := int64(0)
			for _, later := range takes[i:] {
				if later.at < takes[i].at+spec.Per.Microseconds() {
					sum += later.cost
				}
			}
			if sum > int64(spec.Requests) {
				t.Fatalf("%d units in the window that begins at +%dµs", sum, takes[i].at-int64(zero))
			}
		}
	})
}

// A fixed window passes at most requests between two multiples of per, and at most
// twice that in any window of that length.
func TestBoundFixedWindow(t *testing.T) {
	eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == stint.FixedWindow }, func(t *testing.T, h *history) {
		spec := h.limit.Spec()
		per, requests := spec.Per.Microseconds(), int64(spec.Requests)
		most(t, passed(h), func(from, to int64) int64 {
			if !spec.FromFirst && from/per == to/per {
				return requests
			}
			return requests * (1 + (to-from+per-1)/per)
		})
	})
}

// A sliding window passes in any window at most requests and the traffic of the one
// block that lies across its beginning.
func TestBoundSlidingWindow(t *testing.T) {
	eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == stint.SlidingWindow }, func(t *testing.T, h *history) {
		spec := h.limit.Spec()
		per := spec.Per.Microseconds()
		block := per / int64(spec.Blocks)
		takes := passed(h)
		for i, last := range takes {
			sum, across := int64(0), int64(0)
			for _, earlier := range takes[:i+1] {
				if last.at-earlier.at < per {
					sum += earlier.cost
				}
				if earlier.at/block == (last.at-per)/block {
					across += earlier.cost
				}
			}
			if sum > int64(spec.Requests)+across {
				t.Fatalf("%d units in the window that ends at +%dµs, %d of a block across its beginning", sum, last.at-int64(zero), across)
			}
		}
	})
}

// What a leaky bucket lets go is spaced exactly: each leaves one charge for each
// unit after the one before, or at once if that is already past. Nobody waits
// longer than max_wait or behind more than burst.
func TestBoundLeakyBucket(t *testing.T) {
	eachHistory(t, func(s stint.Spec) bool { return s.Algorithm == stint.LeakyBucket }, func(t *testing.T, h *history) {
		spec := h.limit.Spec()
		charge := ceilDiv(spec.Per.Microseconds(), int64(spec.Requests))
		var st stint.State
		free := int64(0) // when the outflow is free again
		for _, try := range h.tries {
			d := try.play(h.limit, &st)
			if !d.Allowed || try.cost == 0 {
				if d.Delay != 0 {
					t.Fatalf("a delay of %v without a take", d.Delay)
				}
				continue
			}
			out := int64(try.at.Add(d.Delay))
			if want := max(free, int64(try.at)); out != want {
				t.Fatalf("let go at +%dµs, want +%dµs", out-int64(zero), want-int64(zero))
			}
			if spec.MaxWait > 0 && d.Delay > spec.MaxWait || d.Delay > micros(charge*int64(spec.Burst)) {
				t.Fatalf("waits %v", d.Delay)
			}
			free = out + charge*int64(try.cost)
		}
	})
}
