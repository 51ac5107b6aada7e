package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"stint"
)

// TestPenaltySnapshot: a restart keeps levels, counted tries and running steps. The snapshot has the
// version that older releases call newer, but only if the store had a penalty.
func TestPenaltySnapshot(t *testing.T) {
	now := noon
	options := Options{Clock: func() stint.Instant { return now }}
	penalty := stint.MustLimit(stint.Spec{
		Algorithm: stint.Penalty, Requests: 2, Per: time.Minute, Ladder: "1m 1h", Decay: 24 * time.Hour, Jitter: 100_000,
	})
	s := New(options)
	s.Take("other", stint.MustLimit(stint.Spec{Requests: 5, Per: time.Hour}), 1)
	version := func() uint32 { return binary.LittleEndian.Uint32(snapshot(t, s)[len(snapshotMagic):]) }
	if got := version(); got != plainVersion {
		t.Errorf("version %d without a penalty", got)
	}
	force := func(key stint.Key, tries uint32) {
		call := stint.Call{Takes: []stint.Take{{Key: key, Limit: penalty, Cost: tries, Op: stint.Force}}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
	}
	force("runs", 3)
	force("counts", 2)
	if got := version(); got != penaltyVersion {
		t.Errorf("version %d with a penalty", got)
	}
	again, err := Load(bytes.NewReader(snapshot(t, s)), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []stint.Key{"runs", "counts", "other"} {
		if got, want := again.Take(key, penalty, 1), s.Take(key, penalty, 1); got != want {
			t.Errorf("%s after the restart: %+v, want %+v", key, got, want)
		}
	}
	if d := again.Take("runs", penalty, 1); d.Allowed || d.Debt != 1 || d.RetryAfter < time.Minute {
		t.Errorf("the step is lost: %+v", d)
	}
	_, err = Load(bytes.NewReader(append([]byte(snapshotMagic), snapshotVersion+1, 0, 0, 0)), options)
	if err != ErrNewer { //nolint:errorlint // it is not wrapped
		t.Errorf("the next version: %v", err)
	}
}
