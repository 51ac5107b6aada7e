package memory

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
)

// TestZeroStore: a Store that New did not make returns errors and stores nothing.
func TestZeroStore(t *testing.T) {
	s, l := new(Store), limit(t, specs[0])
	for name, err := range map[string]error{
		"Decide":        s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "a", Limit: l, Cost: 1}}}),
		"WriteSnapshot": s.WriteSnapshot(io.Discard),
		"SaveFile":      s.SaveFile(filepath.Join(t.TempDir(), "state")),
	} {
		if !errors.Is(err, stint.ErrNoStore) {
			t.Errorf("%s: %v, want %v", name, err, stint.ErrNoStore)
		}
	}
	if !errors.Is(stint.ErrNoStore, stint.ErrWrongCall) {
		t.Error("a failure policy would answer for it")
	}
	s.Sweep()
	if stats := s.Stats(); stats != (Stats{}) {
		t.Errorf("%+v", stats)
	}
	panics(t, stint.ErrNoStore, func() { s.Take("a", l, 1) })
	panics(t, stint.ErrNoStore, func() { s.TakeAtMost("a", l, 1) })
}

// TestTakeAtMostPanics: TakeAtMost returns no error, so it panics.
func TestTakeAtMostPanics(t *testing.T) {
	s, l := New(Options{}), limit(t, stint.Spec{Requests: 5, Per: time.Minute, Overdraw: true})
	panics(t, stint.ErrAtMost, func() { s.TakeAtMost("a", l, 1) })
	panics(t, stint.ErrNoKey, func() { s.TakeAtMost("", limit(t, specs[0]), 1) })
	panics(t, stint.ErrNoLimit, func() { s.TakeAtMost("a", nil, 1) })
}

// panics checks that f panics with the text of an error.
func panics(t *testing.T, want error, f func()) {
	t.Helper()
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, want.Error()) {
			t.Errorf("panics with %q, want %q", said, want)
		}
	}()
	f()
}

// TestSnapshotOfRoundedRate: Load accepts states under a rounded rate that was accepted before.
func TestSnapshotOfRoundedRate(t *testing.T) {
	l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 600_000, Per: time.Second, RoundRate: true})
	s := New(Options{})
	s.Take("a", l, 600_000)
	name := filepath.Join(t.TempDir(), "state")
	if err := s.SaveFile(name); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFile(name, Options{}); err != nil {
		t.Fatal(err)
	}
}
