package stint_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"stint"
)

// Rate is what passes in the long run: it is compared with what does.
func TestRate(t *testing.T) {
	for _, test := range []struct {
		name string
		spec stint.Spec
		want float64
	}{
		{"exact", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}, 1000},
		{"exact, slow", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 6, Per: time.Minute}, 0.1},
		{"rounded a little", stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: time.Second}, 1e6 / 3334.0},
		{"rounded by 1 %", stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_101, Per: time.Second}, 1e4},
		{"rounded much", stint.Spec{Algorithm: stint.TokenBucket, Requests: 600_000, Per: time.Second, RoundRate: true}, 500_000},
		{"queue rounded much", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 600_000, Per: time.Second, RoundRate: true}, 500_000},
		{"in steps", stint.Spec{Algorithm: stint.TokenBucket, Requests: 600_000, Per: time.Second, Step: true}, 600_000},
		{"window", stint.Spec{Requests: 600_000, Per: time.Second}, 600_000},
		{"log", stint.Spec{Algorithm: stint.SlidingLog, Requests: 3, Per: 2 * time.Second}, 1.5},
		{"blocks", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 3, Per: 2 * time.Second}, 1.5},
		{"week", stint.Spec{Requests: 604_800, Calendar: stint.Week}, 1},
		{"month", stint.Spec{Requests: 2_629_746, Calendar: stint.Month}, 1},
		{"nothing", stint.Spec{Algorithm: stint.TokenBucket, Per: time.Second}, 0},
		{"everything", stint.Spec{Algorithm: stint.Unlimited}, math.Inf(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit, err := stint.NewLimit(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := limit.Rate(); got != test.want && math.Abs(got-test.want) > 1e-9*test.want {
				t.Errorf("%v per second, want %v", got, test.want)
			}
			if test.spec.Calendar != stint.NoPeriod || math.IsInf(test.want, 0) {
				return
			}
			// A client that takes each unit as soon as it is available gets Most and then the rate.
			var st stint.State
			now, taken := zero, int64(0)
			for n := limit.Capacity(); n > 0; n-- {
				limit.Take(&st, now, 1)
			}
			for taken < 1000 && limit.Capacity() > 0 {
				d := limit.Take(&st, now, 1)
				if d.Allowed {
					taken++
					continue
				}
				if limit.Algorithm() != stint.TokenBucket || test.spec.Step {
					return // in clumps
				}
				now = now.Add(d.RetryAfter)
			}
			if took := now.Sub(zero).Seconds(); taken > 0 && math.Abs(1000/took-test.want) > test.want/1e6 {
				t.Errorf("%v per second passed, want %v", 1000/took, test.want)
			}
		})
	}
}

// NewLimit refuses a rate that loses over 1 % by rounding to microseconds, and its error has the
// admitted rate. With RoundRate it accepts the rate.
func TestRoundRate(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 600_000, Per: time.Second},
		{Algorithm: stint.LeakyBucket, Requests: 600_000, Per: time.Second},
		{Algorithm: stint.TokenBucket, Requests: 10_204, Per: time.Second},
		{Algorithm: stint.TokenBucket, Requests: 6001, Per: 10 * time.Millisecond},
	} {
		limit, err := stint.NewLimit(spec)
		said, ok := errors.AsType[*stint.SpecError](err)
		if !ok || said.Field != "requests" || !strings.Contains(said.Hint, "RoundRate") {
			t.Errorf("%+v: %v, %v, want an error that names RoundRate", spec, limit, err)
			continue
		}
		if spec.Requests == 600_000 && !strings.Contains(said.Problem, "only 500000 per second") {
			t.Errorf("%v does not say what would be admitted", said)
		}
		spec.RoundRate = true
		if limit, err = stint.NewLimit(spec); err != nil {
			t.Errorf("%+v: %v", spec, err)
		} else if !limit.Spec().RoundRate {
			t.Errorf("a limit made of %v could be refused", limit.Spec())
		}
	}
	over := stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_001, Per: time.Second, RoundRate: true}
	if _, err := stint.NewLimit(over); err == nil {
		t.Error("more than 10^6 per second is accepted")
	}
}

// The zero Limit returns an error with the reason.
func TestZeroLimit(t *testing.T) {
	var none *stint.Limit
	zeroLimit := new(stint.Limit)
	for name, limit := range map[string]*stint.Limit{"nil": none, "zero": zeroLimit} {
		if err := limit.Check(); !errors.Is(err, stint.ErrNoLimit) {
			t.Errorf("%s: %v, want %v", name, err, stint.ErrNoLimit)
		}
	}
	if rate := zeroLimit.Rate(); rate != 0 {
		t.Errorf("the zero Limit admits %v per second", rate)
	}
	var st stint.State
	var d stint.Decision
	for name, decide := range map[string]func(){
		"Take":     func() { zeroLimit.Take(&st, zero, 1) },
		"Test":     func() { zeroLimit.Test(&st, zero, 1) },
		"Force":    func() { zeroLimit.Force(&st, zero, 1) },
		"Refund":   func() { zeroLimit.Refund(&st, zero, 1, nil) },
		"TakeWord": func() { zeroLimit.ForStores().TakeWord(0, zero, 1, &d) },
	} {
		said := func() (said any) {
			defer func() { said = recover() }()
			decide()
			return nil
		}()
		if text, ok := said.(string); !ok || !strings.Contains(text, "zero Limit") {
			t.Errorf("%s: %v, want a panic that names the zero Limit", name, said)
		}
	}
}
