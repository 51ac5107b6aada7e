package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
)

// A load that is sent to the admin listener lets limits pass more until it expires; the load of
// this process itself is known without that.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 3, per: 366d, elastic: {from: load, gauge: db, below: 70%, upto: 300%}}
  - key: job
    rate_limit: {requests: 3, per: 366d, elastic: {from: load, gauge: process, below: 70%, upto: 300%}}
`)
	s := start(t, func(c *settings.Config) { c.Rules = []string{rules} })
	passes := func(user string) (n int) {
		for {
			_, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"`+user+`"}]}]}`)
			if !strings.Contains(body, `"allowed":true`) {
				return n
			}
			n++
		}
	}
	put := func(body string) {
		t.Helper()
		if status, _, answer := s.do(http.MethodPut, "admin", "/v1/load/db", body); status != http.StatusOK {
			t.Fatalf("status %d: %s", status, answer)
		}
	}
	if n := passes("no load was sent"); n != 3 {
		t.Errorf("%d passed before anything was said, want 3", n)
	}
	put(`{"load": 0.2, "ttl": "10m"}`)
	if n := passes("idle"); n != 9 {
		t.Errorf("%d passed at 20 %%, want 9", n)
	}
	if got := s.metric(`stint_load{gauge="db"}`); got != 0.2 {
		t.Errorf("the metric shows %v", got)
	}
	put(`{"load": 0.9, "ttl": "10m"}`)
	if n := passes("busy"); n != 3 {
		t.Errorf("%d passed at 90 %%, want 3", n)
	}
	for deadline := time.Now().Add(testTimeout); ; {
		if _, _, body := s.get("admin", "/v1/load/process"); !strings.Contains(body, "null") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the load of the process is not known")
		}
	}
}
