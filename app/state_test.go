package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/xtest"
)

// takeAll uses up the three requests of user x; allowed says whether they were there.
func (s *service) takeAll() (allowed bool) {
	s.t.Helper()
	status, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "cost": 3}]}`)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, body)
	}
	return strings.Contains(body, `"allowed":true`)
}

// keeping returns what starts a service that keeps its counts in a file.
func keeping(t *testing.T) (name string, change func(*Config)) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), rulesOf(3))
	name = filepath.Join(dir, "counts")
	return name, func(c *Config) {
		c.Rules, c.State, c.LogLevel = []string{filepath.Join(dir, "rules.yaml")}, name, "debug"
	}
}

// Counts come back after a stop.
func TestStateOverAStop(t *testing.T) {
	_, change := keeping(t)
	for _, want := range []bool{true, false, false} {
		s := start(t, change)
		if got := s.takeAll(); got != want {
			t.Fatalf("allowed %v, want %v", got, want)
		}
		s.Stop(context.Background())
		s.log.await(t, 0, "counts saved", "keys=1")
	}
}

// The timer saves, and a save that fails is logged and leaves the file as it was.
func TestStateOnATimer(t *testing.T) {
	name, change := keeping(t)
	s := start(t, func(c *Config) { change(c); c.StateInterval = 5 * time.Millisecond })
	s.takeAll()
	s.log.await(t, 0, "level=DEBUG", "counts saved", "keys=1")
	// A folder in the way of the next save is put there and taken away in one step
	// each; for a moment the file of a save may stand in its place.
	block := name + ".block"
	xtest.Must(t, os.MkdirAll(filepath.Join(block, "full"), 0o700))
	for deadline := time.Now().Add(patience); os.Rename(block, name+".tmp") != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no moment without a save")
		}
	}
	skip := s.log.await(t, s.log.size(), "level=ERROR", "counts not saved", "hint=")
	if s.metric("stint_state_last_failed") != 1 || s.metric(`stint_state_saves_total{result="failure"}`) < 1 {
		t.Error("metrics do not show that a save failed")
	}
	other := start(t, func(c *Config) { change(c); c.StateInterval = 0 })
	if other.takeAll() {
		t.Error("the file does not hold what was saved")
	}
	xtest.Must(t, os.Rename(name+".tmp", block))
	s.log.await(t, skip, "counts saved")
	if s.metric("stint_state_last_failed") != 0 || s.metric(`stint_state_saves_total{result="success"}`) < 2 {
		t.Error("metrics do not show that counts are saved again")
	}
	if at := s.metric("stint_state_last_success_timestamp_seconds"); time.Since(time.UnixMilli(int64(at*1e3))) > time.Minute {
		t.Errorf("last saved at %v", at)
	}
}

// A service that did not start does not touch the file of the one that runs.
func TestStateOfAServiceThatNeverStarted(t *testing.T) {
	name, change := keeping(t)
	config := DefaultConfig()
	change(&config)
	config.Output = new(sink)
	a, err := New(config)
	xtest.Must(t, err)
	a.Stop(context.Background())
	files, err := os.ReadDir(filepath.Dir(name))
	xtest.Must(t, err)
	if len(files) != 1 {
		t.Errorf("files %v, want the rules alone", files)
	}
}

// A damaged file is set aside and the service starts with fresh counts.
func TestStateDamaged(t *testing.T) {
	name, change := keeping(t)
	xtest.Must(t, os.WriteFile(name, []byte("stintmem"), 0o600))
	s := start(t, change)
	s.log.await(t, 0, "level=ERROR", "counts cannot be used", "cut off", "aside="+name+".damaged-1", "hint=")
	if !s.takeAll() {
		t.Error("counts did not begin anew")
	}
}
