package stint

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestWrongCall: errors about a call are told from those of a store, however wrapped.
func TestWrongCall(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{ErrNoLimit, true},
		{ErrNoKey, true},
		{ErrMixedLimits, true},
		{ErrSource, true},
		{ErrNoUndo, true},
		{ErrTime, true},
		{fmt.Errorf("redis: %w", ErrNoKey), true},
		{nil, false},
		{ErrUnknown, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
	} {
		if got := errors.Is(c.err, ErrWrongCall); got != c.want {
			t.Errorf("errors.Is(%v, ErrWrongCall) is %v", c.err, got)
		}
	}
}

// TestFailureString: policies are called as in rule files.
func TestFailureString(t *testing.T) {
	if got := fmt.Sprint(Allow, Deny, Local, Fail); got != "allow deny local fail" {
		t.Error(got)
	}
}
