package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// takeAll uses up the three requests of user x, and reports whether they were left.
func (s *service) takeAll() (allowed bool) {
	s.t.Helper()
	status, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "cost": 3}]}`)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, body)
	}
	return strings.Contains(body, `"allowed":true`)
}

// keeping returns the settings of a service with a state file.
func keeping(t *testing.T) (name string, change func(*settings.Config)) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), rulesOf(3))
	name = filepath.Join(dir, "counts")
	return name, func(c *settings.Config) {
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

// The timer saves, and a save that fails is logged and leaves the old file.
func TestStateOnATimer(t *testing.T) {
	name, change := keeping(t)
	s := start(t, func(c *settings.Config) { change(c); c.StateInterval = 5 * time.Millisecond })
	s.takeAll()
	s.log.await(t, 0, "level=DEBUG", "counts saved", "keys=1")
	// A folder blocks the name of the next save; it appears and disappears in one step each. For a
	// moment the file of a save may be in its place.
	block := name + ".block"
	testkit.Must(t, os.MkdirAll(filepath.Join(block, "full"), 0o700))
	for deadline := time.Now().Add(testTimeout); os.Rename(block, name+".tmp") != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no moment without a save")
		}
	}
	skip := s.log.await(t, s.log.size(), "level=ERROR", "counts not saved", "hint=")
	if s.metric("stint_state_last_failed") != 1 || s.metric(`stint_state_saves_total{result="failure"}`) < 1 {
		t.Error("metrics do not show that a save failed")
	}
	saved, err := os.ReadFile(name) // the file itself is in use
	testkit.Must(t, err)
	other := start(t, func(c *settings.Config) {
		change(c)
		c.State, c.StateInterval = filepath.Join(t.TempDir(), "copy"), 0
		testkit.Must(t, os.WriteFile(c.State, saved, 0o600))
	})
	if other.takeAll() {
		t.Error("the file does not hold what was saved")
	}
	testkit.Must(t, os.Rename(name+".tmp", block))
	skip = s.log.await(t, skip, "level=INFO", "counts are saved again", "failures=")
	s.log.await(t, skip, "level=DEBUG", "counts saved")
	if s.metric("stint_state_last_failed") != 0 || s.metric(`stint_state_saves_total{result="success"}`) < 2 {
		t.Error("metrics do not show that counts are saved again")
	}
	if at := s.metric("stint_state_last_success_timestamp_seconds"); time.Since(time.UnixMilli(int64(at*1e3))) > time.Minute {
		t.Errorf("last saved at %v", at)
	}
}

// A service that did not start does not change the file of a running one.
func TestStateOfAServiceThatNeverStarted(t *testing.T) {
	name, change := keeping(t)
	config := settings.Default()
	change(&config)
	config.Output = new(sink)
	a, err := New(config)
	testkit.Must(t, err)
	a.Stop(context.Background())
	files, err := os.ReadDir(filepath.Dir(name))
	testkit.Must(t, err)
	if len(files) != 1 {
		t.Errorf("files %v, want the rules alone", files)
	}
}

// A damaged file is renamed and the service starts with counts of zero.
func TestStateDamaged(t *testing.T) {
	name, change := keeping(t)
	testkit.Must(t, os.WriteFile(name, []byte("stintmem"), 0o600))
	s := start(t, change)
	s.log.await(t, 0, "level=ERROR", "counts cannot be used", "cut off", "moved_to="+name+".damaged-1", "hint=")
	if !s.takeAll() {
		t.Error("counts did not begin anew")
	}
}

// Only one service at a time has a state file, by whatever path; a refused one changes nothing, and
// a service that could not start releases the file.
func TestStateOfTwo(t *testing.T) {
	name, change := keeping(t)
	link := filepath.Join(t.TempDir(), "link")
	testkit.Must(t, os.Symlink(name, link))
	s := start(t, func(c *settings.Config) { change(c); c.State = link })
	s.takeAll()
	for _, path := range []string{name, link} {
		config := settings.Default()
		change(&config)
		config.State, config.Output = path, s.log
		_, err := New(config)
		fault, ok := errors.AsType[*settings.Error](err)
		if !ok || fault.Error() != fmt.Sprintf("state: %s is in use: process %d uses it", path, os.Getpid()) || !strings.Contains(fault.Hint, "a file of its own") {
			t.Errorf("second: error %v", err)
		}
	}
	s.Stop(context.Background())
	if to, err := os.Readlink(link); to != name || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	config := settings.Default()
	change(&config)
	config.Output, config.GRPC, config.RLS.TLS.Cert, config.RLS.TLS.Key = s.log, "127.0.0.1:0", name, name
	if _, err := New(config); err == nil {
		t.Fatal("started with counts for a certificate")
	}
	if start(t, change).takeAll() {
		t.Error("the counts are lost")
	}
}

// After a clean stop a node continues with its local shares, even while the store is away. It does so
// only once: a process that was killed leaves no file, and its shares count as used up.
func TestStateOfLocalShares(t *testing.T) {
	t.Parallel()
	name, change := keeping(t)
	nowhere := "redis://" + testkit.Address(t)
	node := func() *service {
		return start(t, func(c *settings.Config) {
			change(c)
			c.Store = nowhere
			write(t, c.Rules[0], `domain: api
descriptors:
  - key: user
    rate_limit: {requests: 100, per: 3s, coordination: leased, on_store_failure: local, local_share: 20%, nodes: 2}
`)
		})
	}
	s := node()
	s.log.await(t, 0, "no local shares to load")
	testkit.Until(t, "the share is there", func() bool { return s.takeAll() })
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file stands while the node runs: %v", err)
	}
	s.Stop(context.Background())
	s.log.await(t, 0, "local shares saved")

	s = node()
	for range 2 { // 3 of 10 are gone
		if !s.takeAll() {
			t.Error("the share was lost")
		}
	}
	if s.takeAll() {
		t.Error("more than the share passed")
	}
	s.log.await(t, 0, "local shares loaded", "keys=1")
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stands after it was read: %v", err)
	}
	s.Stop(context.Background())

	write(t, name, "counts of another store")
	s = node()
	if s.takeAll() {
		t.Error("passed, of a share that is not known")
	}
	s.log.await(t, 0, "level=ERROR", "local shares cannot be loaded", name+".damaged-1")
}
