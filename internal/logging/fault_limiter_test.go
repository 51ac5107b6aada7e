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
		times      int // number of checks without a new fault before the last one
		faults     uint64
		fault      error
		tell, over bool
	}{
		{times: 5},
		{faults: 2, fault: one, tell: true},
		{faults: 1, fault: one},
		{times: 10, faults: 1, fault: other}, // too soon
		{times: logging.Quiet - 1, faults: 1, fault: other, tell: true},
		{times: logging.Quiet - 1, faults: 1, fault: other}, // already logged
		{times: logging.Quiet - 2},
		{over: true},
		{times: 100},
		{faults: 1, fault: other, tell: true},
	} {
		for range step.times {
			if tell, over := tl.Look(tl.Seen, step.fault); tell || over {
				t.Fatalf("step %d: %v, %v without a fault", i, tell, over)
			}
		}
		if tell, over := tl.Look(tl.Seen+step.faults, step.fault); tell != step.tell || over != step.over {
			t.Errorf("step %d: tell %v, over %v; want %v, %v", i, tell, over, step.tell, step.over)
		}
		if lasts = (lasts || step.tell) && !step.over; tl.Lasts() != lasts {
			t.Errorf("step %d: lasts %v, want %v", i, tl.Lasts(), lasts)
		}
	}
}
