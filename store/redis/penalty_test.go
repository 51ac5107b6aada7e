package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// TestPenaltyState: the state of a penalty is one short string that lives until its level is gone, and
// no longer than a few seconds after that. A value that is none is reported, and a reset removes it.
func TestPenaltyState(t *testing.T) {
	server := testkit.StartRedis(t)
	s := open(t, server)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.Penalty, Requests: 2, Per: time.Minute, Ladder: "1h 2h", Decay: 24 * time.Hour})
	decide := func(take stint.Take) (stint.Decision, error) {
		take.Key, take.Limit = "ann", limit
		call := stint.Call{Takes: []stint.Take{take}}
		err := s.Decide(context.Background(), &call)
		return call.Results[0], err
	}
	name := ""
	for range 2 {
		if _, err := decide(stint.Take{Op: stint.Force, Cost: 3}); err != nil {
			t.Fatal(err)
		}
	}
	for key := range strings.FieldsSeq(server.Do("KEYS", "*:penalty:ann")) {
		name = key
	}
	value, end := ttlOf(t, server, name)
	gone := time.UnixMicro(end)
	if left := time.Until(gone); left < 25*time.Hour || left > 25*time.Hour+20*time.Second {
		t.Errorf("%q lives for %v", value, left)
	}
	if !strings.HasPrefix(value, "1p 2 60000000 86400000000 0 3600000000 7200000000|") || len(value) > 120 {
		t.Errorf("the state is %q", value)
	}
	server.Do("SET", name, "2p 7|x")
	if _, err := decide(stint.Take{Cost: 1}); err == nil {
		t.Error("a state of another release is read")
	}
	if _, err := decide(stint.Take{Op: stint.Reset}); err != nil {
		t.Fatal(err)
	}
	if d, err := decide(stint.Take{Cost: 1}); err != nil || !d.Allowed || d.Debt != 0 {
		t.Errorf("after the reset: %+v, %v", d, err)
	}
}
