package load

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// The load is the CPU time used since the last measurement, which ends after a second. It starts
// anew after a pause.
func TestProcess(t *testing.T) {
	var used time.Duration
	tells := true
	p := process{used: func() (time.Duration, bool) { return used, tells }}
	begun := time.Now()
	for _, step := range []struct {
		at    time.Duration
		used  float64 // CPU time of all CPUs so far, in seconds
		load  float64
		fresh bool
	}{
		{0, 7, 0, false},                          // no earlier sample
		{50 * time.Millisecond, 7.05, 0, false},   // too short to measure
		{100 * time.Millisecond, 7.05, 0.5, true}, // the first value
		{1099 * time.Millisecond, 9, 0.5, true},   // measured at most once a second
		{1100 * time.Millisecond, 7.3, 0.25, true},
		{2200 * time.Millisecond, 7.3, 0, true},
		{4200 * time.Millisecond, 9.3, 1, true},
		{9201 * time.Millisecond, 12, 0, false}, // after a pause the last second is unknown
		{9202 * time.Millisecond, 12, 0, false},
		{10201 * time.Millisecond, 12.4, 0.4, true},
		{11201 * time.Millisecond, 12.3, 0, true}, // a clock that went backwards
	} {
		used = time.Duration(step.used * float64(runtime.GOMAXPROCS(0)) * float64(time.Second))
		load, fresh := p.load(begun.Add(step.at))
		if math.Abs(load-step.load) > 1e-6 || fresh != step.fresh {
			t.Errorf("at %v: %v, %v, want %v, %v", step.at, load, fresh, step.load, step.fresh)
		}
	}
	tells = false
	if load, fresh := p.load(begun.Add(13 * time.Second)); fresh {
		t.Errorf("%v of a system that does not tell", load)
	}
}
