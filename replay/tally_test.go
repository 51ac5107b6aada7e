package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stint"
)

// TestSeriesIsBounded adds lines over spans from seconds to decades: no line is lost, and the
// buckets stay few and in order.
func TestSeriesIsBounded(t *testing.T) {
	for _, test := range []struct {
		from, step, n int64
		width         int64
	}{
		{1_431_857_103, 1, 1, 1},
		{1_431_857_103, 1, 1000, 1},
		{1_431_857_103, 1, 1001, 5},
		{1_431_857_103, 3600, 24 * 41, 3600},
		{1_431_857_103, 86_400, 365 * 3, 2 * 86_400},
		{1, 86_400 * 30, 1100, 64 * 86_400},
		{1_431_857_103, 7, 100_000, 900},
	} {
		var s series
		for i := range test.n {
			s.add(second{at: test.from + i*test.step, offered: i%7 + 2, denied: i % 2})
		}
		offered, denied, peak := int64(0), int64(0), int64(0)
		for _, b := range s.buckets {
			offered, denied, peak = offered+b.offered, denied+b.denied, max(peak, b.peak)
		}
		want, wantDenied := int64(0), int64(0)
		for i := range test.n {
			want, wantDenied = want+i%7+2, wantDenied+i%2
		}
		if offered != want || denied != wantDenied || peak != min(8, test.n+1) || s.width() != test.width || len(s.buckets) > maxBuckets {
			t.Errorf("%+v: %d offered (%d), %d denied (%d), peak %d, width %d, %d buckets", test, offered, want, denied, wantDenied, peak, s.width(), len(s.buckets))
		}
		last := test.from + (test.n-1)*test.step
		if s.first != test.from/s.width() || s.first+int64(len(s.buckets))-1 != last/s.width() {
			t.Errorf("%+v: buckets %d to %d", test, s.first, s.first+int64(len(s.buckets))-1)
		}
	}
}

// TestMeter checks that a delayed line counts in the second in which it passes.
func TestMeter(t *testing.T) {
	type line struct{ at, delay time.Duration }
	for _, test := range []struct {
		lines []line
		want  int64
	}{
		{nil, 0},
		{[]line{{time.Second, 0}, {1500 * time.Millisecond, 0}, {2 * time.Second, 0}}, 2},
		{[]line{{time.Second, 0}, {time.Second, 500 * time.Millisecond}, {time.Second, time.Second}}, 2},
		{[]line{{time.Second, 5 * time.Second}, {2 * time.Second, 4 * time.Second}, {6 * time.Second, 0}}, 3},
		{[]line{{time.Second, 5 * time.Second}, {2 * time.Second, 4 * time.Second}, {9 * time.Second, 0}}, 2},
		{[]line{{time.Second, 5 * time.Second}, {2 * time.Second, 4 * time.Second}}, 2},
		{[]line{{time.Second, time.Second}, {time.Second, 2 * time.Second}, {time.Second, 2 * time.Second}, {time.Second, 3 * time.Second}, {5 * time.Second, 0}}, 2},
	} {
		var m meter
		for _, l := range test.lines {
			m.pass(stint.Instant(l.at.Microseconds()), l.delay)
		}
		m.finish()
		if m.peak != test.want {
			t.Errorf("%v: peak %d, want %d", test.lines, m.peak, test.want)
		}
	}
}

func TestTopClients(t *testing.T) {
	tally := newTally(1, 0)
	var want []ClientCount
	for i := range 50 {
		tally.known(uint32(i))
		tally.clients[i] = client{allowed: int64(i % 5), denied: int64(i % 3)}
		if i%5+i%3 > 0 {
			want = append(want, ClientCount{Key: fmt.Sprint(i), Allowed: int64(i % 5), Denied: int64(i % 3)})
		}
	}
	slices.SortFunc(want, func(a, b ClientCount) int { return a.compare(&b) })
	got := tally.top(func(id uint32) string { return fmt.Sprint(id) })
	if !slices.Equal(got, want[:maxClients]) {
		t.Errorf("%v, want %v", got, want[:maxClients])
	}
}
