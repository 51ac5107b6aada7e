package loadtest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// times is a histogram of times, exact to a thousandth.
type times struct{ *hdrhistogram.Histogram }

// The range of a histogram. Longer times count as the longest.
const (
	shortestTime = time.Microsecond
	longestTime  = MaxDuration + 2*MaxTimeout
)

func newTimes() times {
	return times{hdrhistogram.New(int64(shortestTime), int64(longestTime), 3)}
}

// add counts n times.
func (t times) add(d time.Duration, n int64) {
	// The value is in the range, so there is no error.
	_ = t.RecordValues(int64(min(max(d, 0), longestTime)), n)
}

// at returns the time that the fraction q of all times do not exceed.
func (t times) at(q float64) time.Duration {
	return time.Duration(t.ValueAtPercentile(100 * q))
}

// mostCorrections bounds the times that corrected adds for one time of the histogram.
const mostCorrections = 1000

// corrected returns the histogram with the times that a closed loop leaves out. A worker calls once in each interval; while it
// waits longer, it omits calls, of which the first would have waited one interval less, the second two less, and so on.
func (t times) corrected(interval time.Duration) times {
	c := newTimes()
	for _, bar := range t.Distribution() {
		if bar.Count == 0 {
			continue
		}
		took := time.Duration(bar.To)
		c.add(took, bar.Count)
		if interval <= 0 {
			continue
		}
		// A long wait omits many calls. Then one added time stands for several of them.
		step := max(1, int64(took/interval)/mostCorrections)
		for rest := took - time.Duration(step)*interval; rest >= interval; rest -= time.Duration(step) * interval {
			c.add(rest, step*bar.Count)
		}
	}
	return c
}

// Point is a point of the curve of times.
type Point struct {
	Percentile float64 `json:"percentile"`
	US         int64   `json:"us"` // microseconds, rounded up
}

// Times are the times of answers, in microseconds.
type Times struct {
	Count int64   `json:"count"`
	P50   int64   `json:"p50_us"`
	P90   int64   `json:"p90_us"`
	P99   int64   `json:"p99_us"`
	P999  int64   `json:"p999_us"`
	Max   int64   `json:"max_us"`
	Mean  float64 `json:"mean_us"`
	Curve []Point `json:"curve"`
}

// summary returns the figures of the histogram.
func (t times) summary() Times {
	us := func(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
	s := Times{Count: t.TotalCount(), Curve: []Point{}}
	if s.Count == 0 {
		return s
	}
	s.P50, s.P90, s.P99, s.P999 = us(t.at(0.5)), us(t.at(0.9)), us(t.at(0.99)), us(t.at(0.999))
	s.Max, s.Mean = us(time.Duration(t.Histogram.Max())), t.Histogram.Mean()/float64(time.Microsecond)
	// Five points for each halving of the rest, as far as there are times to tell them apart.
	for rest, n := 1.0, 0; rest*float64(s.Count) >= 0.5 && n < 200; n++ {
		s.Curve = append(s.Curve, Point{100 * (1 - rest), us(t.at(1 - rest))})
		rest *= 0.870550563 // 2^-0.2
	}
	s.Curve = append(s.Curve, Point{100, s.Max})
	return s
}
