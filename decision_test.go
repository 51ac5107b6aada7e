package stint_test

import (
	"testing"
	"time"

	"stint"
)

// Combine uses the first of equal decisions. A denial comes before an allowed one, a longer wait
// before a shorter one, fewer remaining units before more. The delay is the largest one.
func TestCombine(t *testing.T) {
	yes := func(remaining int64, delay time.Duration) stint.Decision {
		return stint.Decision{Allowed: true, Limit: 10, Remaining: remaining, Delay: delay}
	}
	no := func(retry time.Duration) stint.Decision {
		return stint.Decision{Limit: 10, RetryAfter: retry}
	}
	unlimited := yes(stint.NoLimit, 0)
	over, degraded := yes(5, 0), yes(5, 0)
	over.Over, degraded.Degraded = true, true
	for _, test := range []struct {
		name    string
		results []stint.Decision
		want    int
		delay   time.Duration
	}{
		{"nothing asked", nil, -1, 0},
		{"one", []stint.Decision{yes(3, time.Second)}, 0, time.Second},
		{"least remaining", []stint.Decision{yes(3, 0), yes(2, 0), yes(4, 0)}, 1, 0},
		{"first of equals", []stint.Decision{yes(3, 0), yes(2, 0), yes(2, 0)}, 1, 0},
		{"largest delay", []stint.Decision{yes(2, time.Second), yes(3, time.Minute), yes(4, 0)}, 0, time.Minute},
		{"unlimited speaks last", []stint.Decision{unlimited, yes(3, 0)}, 1, 0},
		{"a refusal speaks first", []stint.Decision{yes(0, time.Minute), no(time.Nanosecond)}, 1, 0},
		{"longest wait", []stint.Decision{no(time.Second), yes(0, 0), no(time.Minute), no(time.Minute)}, 2, 0},
		{"never is longest", []stint.Decision{no(time.Hour), no(stint.Never), no(stint.Never)}, 1, 0},
		{"over and degraded are of the call", []stint.Decision{yes(1, 0), over, degraded}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, chosen := stint.Combine(test.results)
			if chosen != test.want {
				t.Fatalf("%d speaks, want %d", chosen, test.want)
			}
			if chosen < 0 {
				if !d.Allowed || d.Limit != stint.NoLimit || d.Remaining != stint.NoLimit {
					t.Errorf("nothing asked: %+v", d)
				}
				return
			}
			want := test.results[chosen]
			want.Delay = test.delay
			for _, r := range test.results {
				want.Over, want.Degraded = want.Over || r.Over, want.Degraded || r.Degraded
			}
			if d != want {
				t.Errorf("got %+v, want %+v", d, want)
			}
		})
	}
}

// An algorithm's name is read back as the algorithm, and no other name is.
func TestAlgorithmNames(t *testing.T) {
	for a := range stint.Unlimited + 1 {
		if got, err := stint.ParseAlgorithm(a.String()); got != a || err != nil {
			t.Errorf("%v: %v, %v", a, got, err)
		}
	}
	for _, name := range []string{"", "gcra", "Fixed_Window", "token-bucket"} {
		if a, err := stint.ParseAlgorithm(name); err == nil {
			t.Errorf("%q is %v", name, a)
		}
	}
	if a, err := stint.ParseAlgorithm(stint.Penalty.String()); err == nil {
		t.Errorf("a penalty is read as the limit %v", a)
	}
	if got := (stint.Penalty + 1).String(); got != "Algorithm(7)" {
		t.Error(got)
	}
	for p, want := range []string{"", "day", "week", "month", "year"} {
		if got := stint.Period(p).String(); got != want {
			t.Errorf("period %d is %q", p, got)
		}
	}
}
