package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// While durable takes cannot be saved their rules follow on_store_failure, other rules decide as ever, and
// a call that failed charged nothing. When the disk works again so do they.
func TestDurableWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "counts")
	write(t, rules, `
domain: api
descriptors:
  - {key: denied, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: deny}}
  - {key: allowed, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: allow}}
  - {key: local, rate_limit: {requests: 2, per: 300d, durable: true, on_store_failure: local, local_share: 50%, nodes: 1}}
  - {key: other, rate_limit: {requests: 2, per: 300d}}
`)
	s := start(t, func(c *settings.Config) { c.Rules, c.State, c.StateInterval = []string{rules}, state, time.Hour })
	block := state + ".journal-00000000000000000001" // a link that leads nowhere: no file of the journal can begin
	testkit.Must(t, os.Symlink(filepath.Join(dir, "nowhere", "file"), block))
	for _, tt := range []struct {
		key      string
		allowed  bool
		degraded bool
	}{
		{"denied", false, true},
		{"allowed", true, true},
		{"local", true, true},
		{"local", false, true},
		{"other", true, false},
	} {
		body := s.check(tt.key)
		if strings.Contains(body, `"allowed":true`) != tt.allowed || strings.Contains(body, `"degraded":true`) != tt.degraded {
			t.Errorf("%s: %s", tt.key, body)
		}
	}
	testkit.Must(t, os.Remove(block))
	testkit.Until(t, "durable takes are saved again", func() bool { return !strings.Contains(s.check("allowed"), `"degraded":true`) })
	for _, allowed := range []bool{true, true, false} {
		if body := s.check("denied"); strings.Contains(body, `"allowed":true`) != allowed || strings.Contains(body, `"degraded":true`) {
			t.Errorf("after that, denied: %s", body)
		}
	}
}

// Durable rules need a Redis with an append-only file; others do not.
func TestDurableNeedsAOF(t *testing.T) {
	for _, tt := range []struct {
		words  string
		args   []string
		starts bool
	}{
		{"durable: true", []string{"--appendonly", "yes"}, true},
		{"durable: true", []string{"--appendonly", "no"}, false},
		{"durable: false", []string{"--appendonly", "no"}, true},
	} {
		dir := t.TempDir()
		rules := filepath.Join(dir, "rules.yaml")
		write(t, rules, "domain: api\ndescriptors: [{key: user, rate_limit: {requests: 2, per: 300d, "+tt.words+"}}]\n")
		c := settings.Default()
		c.Rules, c.Store, c.HTTP, c.GRPC, c.Admin = []string{rules}, testkit.StartRedis(t, append(tt.args, "--dir", dir)...).URL(), "127.0.0.1:0", "", ""
		c.StoreTimeout = 5 * time.Second
		c.Output = new(sink)
		a, err := New(c)
		testkit.Must(t, err)
		err = a.Start(t.Context())
		if (err == nil) != tt.starts || err != nil && !strings.Contains(err.Error(), "rule api/user is durable, and") {
			t.Errorf("%s with %v: %v", tt.words, tt.args, err)
		}
		a.Stop(t.Context())
	}
}

// A reload that makes a rule durable warns of a Redis without an append-only file: the rule is in force without it.
func TestReloadedDurableNeedsAOF(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	const text = "domain: api\ndescriptors: [{key: user, rate_limit: {requests: 2, per: 300d}}]\n"
	write(t, rules, text)
	redis := testkit.StartRedis(t, "--appendonly", "no", "--dir", dir)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{rules}, redis.URL(), 5*time.Second
	})
	if begun := s.log.String(); strings.Contains(begun, "append-only") {
		t.Errorf("without durable rules: %s", begun)
	}
	write(t, rules, strings.Replace(text, "300d", "300d, durable: true", 1))
	testkit.Must(t, s.Reload("test"))
	s.log.await(t, 0, "the store may forget limits", "append-only")
}

// A journal that a crash left is loaded by a service whose rule is not durable any more, and then dropped: its old
// counts are not put over those that are saved later.
func TestJournalOfFormerRule(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	durable := "domain: api\ndescriptors:\n  - {key: k, rate_limit: {requests: 4, per: 300d, durable: true}}\n"
	write(t, rules, durable)
	node := func(dir string) *service {
		return start(t, func(c *settings.Config) {
			c.Rules, c.State, c.StateInterval = []string{rules}, filepath.Join(dir, "counts"), time.Hour
		})
	}
	s := node(dir)
	s.answers("k", true, false)
	testkit.Must(t, os.CopyFS(copied, os.DirFS(dir)))
	s.Stop(context.Background())
	write(t, rules, strings.Replace(durable, ", durable: true", "", 1))
	s = node(copied)
	for range 3 {
		s.answers("k", true, false)
	}
	s.answers("k", false, false)
	for range 2 {
		s.Stop(context.Background())
		s = node(copied)
		s.answers("k", false, false)
	}
	s.Stop(context.Background())
	write(t, rules, durable)
	s = node(copied)
	s.answers("k", false, false)
	if n := s.metric("stint_durable_losses_total"); n != 0 {
		t.Errorf("%v losses", n)
	}
}

// A file of the journal that a crash left after the state file was saved, which has all that it has, is not put over
// the counts that takes had meanwhile while their rule was not durable.
func TestJournalBeforeTheState(t *testing.T) {
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "counts")
	durable := "domain: api\ndescriptors:\n  - {key: k, rate_limit: {requests: 4, per: 300d, durable: true}}\n"
	write(t, rules, durable)
	node := func() *service {
		return start(t, func(c *settings.Config) { c.Rules, c.State, c.StateInterval = []string{rules}, state, time.Hour })
	}
	s := node()
	s.answers("k", true, false)
	testkit.Until(t, "the state file says that there is a journal", func() bool {
		_, err := os.Stat(state)
		return err == nil
	})
	files, err := filepath.Glob(state + ".journal-*")
	testkit.Must(t, err)
	left := files[len(files)-1]
	s.answers("k", true, false)
	content, err := os.ReadFile(left)
	testkit.Must(t, err)
	write(t, rules, strings.Replace(durable, ", durable: true", "", 1))
	testkit.Must(t, s.Reload("test"))
	for range 2 {
		s.answers("k", true, false)
	}
	s.Stop(context.Background())
	write(t, left, string(content))
	write(t, rules, durable)
	s = node()
	s.answers("k", false, false)
	if n := s.metric("stint_durable_losses_total"); n != 0 {
		t.Errorf("%v losses", n)
	}
}

// A journal that a crash left is merged into the state file at once, and not only at the next interval: until then the
// state file would not tell that the new file of the journal is gone.
func TestJournalAfterCrash(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, durableRules)
	dir := t.TempDir()
	node := func() *service {
		return start(t, func(c *settings.Config) {
			c.Rules, c.State, c.StateInterval = []string{rules}, filepath.Join(dir, "counts"), time.Hour
		})
	}
	var file string // of the journal that is written
	crash := func(s *service) {
		t.Helper()
		before := file
		testkit.Until(t, "only the file is left that is written", func() bool {
			files, _ := filepath.Glob(filepath.Join(dir, "counts.journal-*"))
			_, err := os.Stat(filepath.Join(dir, "counts"))
			if len(files) == 1 {
				file = filepath.Base(files[0])
			}
			return len(files) == 1 && err == nil && file != before
		})
		s.answers("month", true, false)
		left := t.TempDir()
		testkit.Must(t, os.CopyFS(left, os.DirFS(dir)))
		s.Stop(context.Background())
		dir = left
	}
	for range 2 {
		s := node()
		s.answers("month", true, false)
		crash(s)
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, file)))
	s := node()
	s.answers("month", false, true)
	// The numbers of files go on: an older copy of the state file does not fit to the next ones.
	if files, _ := filepath.Glob(filepath.Join(dir, "counts.journal-*")); len(files) == 0 || filepath.Base(files[0]) <= file {
		t.Errorf("the files are %q, after %s", files, file)
	}
}

// While the state file cannot be written its saves begin no further files of the journal, and takes are saved in one.
func TestJournalWithoutState(t *testing.T) {
	dir := t.TempDir()
	rules, state := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "counts")
	write(t, rules, durableRules)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.State, c.StateInterval = []string{rules}, state, 5*time.Millisecond
	})
	testkit.Until(t, "a folder is in the way of saves", func() bool { return os.MkdirAll(filepath.Join(state+".tmp", "in the way"), 0o700) == nil })
	s.answers("month", true, false)
	testkit.Until(t, "saves fail", func() bool { return s.metric(`stint_state_saves_total{result="failure"}`) > 9 })
	if files, err := filepath.Glob(state + ".journal-*"); err != nil || len(files) > 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	s.answers("month", true, false)
	testkit.Must(t, os.Rename(state+".tmp", filepath.Join(dir, "out of the way")))
	testkit.Until(t, "only the file is left that is written", func() bool {
		files, _ := filepath.Glob(state + ".journal-*")
		return len(files) == 1
	})
}
