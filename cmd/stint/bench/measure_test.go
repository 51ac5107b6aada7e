package bench

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A time is counted in a bucket that ends at most a sixteenth above it.
func TestBuckets(t *testing.T) {
	last := -1
	for _, d := range []time.Duration{0, 1, 15, 16, 17, 31, 32, 33, 1000, time.Microsecond * 50, time.Millisecond, time.Minute, 1 << 62} {
		b := bucket(d)
		if b < last || b >= maxBucket {
			t.Errorf("%v is in bucket %d, after %d", d, b, last)
		}
		last = b
		if up := bucketEnd(b); up < d || up-d > d/16 {
			t.Errorf("%v is in a bucket that ends at %v", d, up)
		}
	}
}

func TestQuantile(t *testing.T) {
	var total measureResult
	for i := range 100 {
		total.time(time.Duration(i+1) * time.Millisecond)
	}
	for _, test := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Millisecond}, {0.5, 51 * time.Millisecond}, {0.99, 100 * time.Millisecond}, {1, 100 * time.Millisecond}} {
		if got := total.quantile(test.q); got < test.want || got > test.want+test.want/16 {
			t.Errorf("quantile %v: %v, want %v", test.q, got, test.want)
		}
	}
}

// Every third call fails and every second of the others is denied. The count ends the run.
func TestWork(t *testing.T) {
	n := 0
	ask := func(_ context.Context, key int) (bool, error) {
		if key != 7 {
			t.Errorf("asked for key %d", key)
		}
		n++
		if n%3 == 0 {
			return false, errors.New("no answer")
		}
		return n%2 == 0, nil
	}
	var total measureResult
	total.work(t.Context(), job{ask: ask, keys: []uint32{7}, most: 6, every: 1})
	if total.allowed != 2 || total.denied != 2 || total.failed != 2 || total.err == nil {
		t.Errorf("allowed %d, denied %d, failed %d (%v); want 2, 2, 2", total.allowed, total.denied, total.failed, total.err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none measureResult
	none.work(ended, job{ask: ask, keys: []uint32{7}, most: 6, every: 64})
	if none.allowed+none.denied+none.failed != 0 {
		t.Error("asked although the time was up")
	}
}
