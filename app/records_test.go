package app

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/records"
)

// sharing returns the settings of a node whose records are in Redis, with its copy in a folder of its
// own.
func sharing(t *testing.T, url string) func(*settings.Config) {
	t.Helper()
	dir := t.TempDir()
	return func(c *settings.Config) { c.Records, c.State = url, filepath.Join(dir, "counts") }
}

// ban bans a network, and tries again for a moment if it cannot.
func (s *service) ban(network string) {
	s.t.Helper()
	change := records.Change{Edits: []records.Edit{{Put: records.Ban{Network: netip.MustParsePrefix(network)}}}}
	testkit.Until(s.t, "the ban is made", func() bool {
		_, err := s.records.Apply(s.t.Context(), change, time.Now())
		return err == nil
	})
}

func (s *service) bans(address string) bool {
	_, banned := s.records.BannedAddress(netip.MustParseAddr(address), time.Now())
	return banned
}

// Two services share records by Redis. While it is away, both go on, say so, and stop promptly.
func TestRecordsInRedis(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t, "--requirepass", "hush")
	url := "redis://:hush@" + server.Addr
	a, b := start(t, sharing(t, url)), start(t, sharing(t, url))
	a.ban("192.0.2.0/24")
	testkit.Until(t, "the other service has the ban", func() bool { return b.bans("192.0.2.7") })
	number, hash := a.records.Head()
	_, _, metrics := b.get("admin", "/metrics")
	for _, want := range []string{"stint_records_revision 1\n", "stint_records_available 1\n", "stint_records_age_seconds 0.", `stint_records_audit_head{hash="` + hash + `"} 1` + "\n"} {
		if !strings.Contains(metrics, want) || number != 1 {
			t.Errorf("the metrics lack %q", want)
		}
	}
	b.log.await(t, 0, "head of the audit trail", "entry=0")

	server.Freeze()
	_, err := a.records.Apply(t.Context(), records.Change{Edits: []records.Edit{{Delete: records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")}.ID()}}}, time.Now())
	if !errors.Is(err, records.ErrUnavailable) {
		t.Errorf("a change without Redis: %v", err)
	}
	b.log.await(t, 0, "level=WARN", "cannot read the changes of records", "hint=")
	testkit.Until(t, "the metrics say so", func() bool {
		_, _, metrics := b.get("admin", "/metrics")
		return strings.Contains(metrics, "stint_records_available 0\n")
	})
	if !a.bans("192.0.2.7") || !b.bans("192.0.2.7") {
		t.Error("the ban is not in force without Redis")
	}
	began := time.Now()
	b.Stop(context.Background())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopped after %v", took)
	}
	server.Thaw()
	a.log.await(t, 0, "level=INFO", "changes of records can be read again")
	a.ban("198.51.100.0/24")
	for _, s := range []*service{a, b} {
		if strings.Contains(s.log.String(), "hush") {
			t.Errorf("the log has the password:\n%s", s.log.String())
		}
	}
}

// A service starts without Redis, from its copy.
func TestRecordsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	change := sharing(t, server.URL())
	s := start(t, change)
	s.ban("192.0.2.0/24")
	s.Stop(context.Background())
	server.Stop()
	s = start(t, change)
	if status, _, body := s.get("admin", "/readyz"); status != http.StatusOK || !s.bans("192.0.2.7") {
		t.Errorf("the ban is not in force, or the service is not ready: %d, %s", status, body)
	}
	server.Restart() // empty
	s.ban("198.51.100.0/24")
	// A new node has no copy: it is not ready until it has read the records.
	server.Freeze()
	joined := start(t, sharing(t, server.URL()))
	if status, _, body := joined.get("admin", "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "records: not read from Redis yet") {
		t.Errorf("a new node without Redis is ready: %d, %s", status, body)
	}
	server.Thaw()
	testkit.Until(t, "the new node is ready", func() bool { status, _, _ := joined.get("admin", "/readyz"); return status == http.StatusOK })
	if !joined.bans("192.0.2.7") {
		t.Error("the new node is ready without the ban")
	}
	testkit.Until(t, "Redis has both bans", func() bool {
		return strings.Contains(server.Do("HKEYS", "stint:{records}:state"), "192.0.2.0/24") && strings.Contains(server.Do("HKEYS", "stint:{records}:state"), "198.51.100.0/24")
	})
}

// An audit trail cannot be kept for less than a day.
func TestAuditFor(t *testing.T) {
	c := settings.Default()
	c.AuditFor = time.Hour
	err := c.Check()
	fault, ok := errors.AsType[*settings.Error](err)
	if !ok || fault.Where != "audit-for" || !strings.Contains(fault.Problem, "1h is less than a day") || fault.Hint == "" {
		t.Errorf("%v", err)
	}
}

// The role support must be able to override a rule for some time.
func TestSupportFor(t *testing.T) {
	c := settings.Default()
	c.SupportFor = 0
	err := c.Check()
	fault, ok := errors.AsType[*settings.Error](err)
	if !ok || fault.Where != "support-for" || fault.Hint == "" {
		t.Errorf("%v", err)
	}
}

// Settings that do not fit are refused with a hint, without the password.
func TestRecordsSettings(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		records, copy, state string
		problem, hint        string
	}{
		{"redis://:hush@127.0.0.1", "", "", "need a file for this node's copy", "--records-copy FILE, or --state FILE"},
		{"records.db", "copy.db", "", "records are not in Redis", "leave it out"},
		{"redis://:hush@a,b", "copy.db", "", "several servers in one URL", "redis+cluster"},
		{"redis://:hush@a?master=x", "copy.db", "", "unknown parameter", "known are"},
		{"redis://:hush@127.0.0.1", filepath.Join(dir, "none", "copy.db"), "", "its folder does not exist", "create the folder"},
		{"redis://:hush@127.0.0.1", dir, "", "not a file", "a file of its own"},
	} {
		config := settings.Default()
		config.Records, config.RecordsCopy, config.State = tt.records, tt.copy, tt.state
		_, err := New(config)
		fault, ok := errors.AsType[*settings.Error](err)
		if !ok || !strings.Contains(fault.Problem, tt.problem) || !strings.Contains(fault.Hint, tt.hint) || strings.Contains(fault.Error()+fault.Hint, "hush") {
			t.Errorf("%s, %s: %+v, want %q, %q", tt.records, tt.copy, err, tt.problem, tt.hint)
		}
	}
}
