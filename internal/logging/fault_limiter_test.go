package logging_test

import (
	"errors"
	"testing"

	"stint/internal/logging"
)

func TestLook(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	var tl logging.FaultLimiter
	lasts := false
	for i, step := range []struct {
		times        int // number of checks without a new fault before the last one
		faults       uint64
		fault        error
		begins, over bool
	}{
		{times: 5},
		{faults: 2, fault: one, begins: true},
		{faults: 1, fault: one},
		{times: 10, faults: 1, fault: other}, // too soon
		{times: logging.Quiet - 1, faults: 1, fault: other, begins: true},
		{times: logging.Quiet - 1, faults: 1, fault: other}, // already logged
		{times: logging.Quiet - 2},
		{over: true},
		{times: 100},
		{faults: 1, fault: other, begins: true},
	} {
		for range step.times {
			if begins, over := tl.Check(tl.Seen, step.fault); begins || over {
				t.Fatalf("step %d: %v, %v without a fault", i, begins, over)
			}
		}
		if begins, over := tl.Check(tl.Seen+step.faults, step.fault); begins != step.begins || over != step.over {
			t.Errorf("step %d: begins %v, over %v; want %v, %v", i, begins, over, step.begins, step.over)
		}
		if lasts = (lasts || step.begins) && !step.over; tl.Lasts() != lasts {
			t.Errorf("step %d: lasts %v, want %v", i, tl.Lasts(), lasts)
		}
	}
}
