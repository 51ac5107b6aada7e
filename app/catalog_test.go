package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/rule"
)

// standing returns the rules per API in /v1/limits.
func (s *service) standing() string {
	s.t.Helper()
	_, _, body := s.get("admin", "/v1/limits")
	return regexp.MustCompile(`"catalog":\{.*?\}`).FindString(body)
}

// Rules per API come from files, which may change; after a bad one the old rules stay.
func TestCatalogFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.csv")
	write(t, file, "7,all,/v1/orders/{id},minute,5\n")
	s := start(t, func(c *settings.Config) { c.Catalog = []string{file} })
	at := s.log.await(t, 0, "catalog loaded", "reason=start", "rules=1", "hash=")
	hash := s.book.Catalog().Hash()
	if got := s.standing(); !strings.HasPrefix(got, `"catalog":{"rules":1,`) || !strings.HasSuffix(got, fmt.Sprintf(`,"hash":"%s","reload_error":""}`, hash)) {
		t.Errorf("/v1/limits says %s", got)
	}
	if _, _, body := s.get("admin", "/v1/rules/7"); !strings.Contains(body, `"url":"/v1/orders/{id}","time":"minute","requests":5,"domain":"api"`) {
		t.Errorf("the rule is %s", body)
	}
	if status, _, body := s.do(http.MethodDelete, "admin", "/v1/rules/7", ""); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, body)
	}

	write(t, file, "7,all,/v1/orders/{id},minute\n")
	at = s.log.await(t, at, "level=ERROR", "catalog refused: keeping the old one", "line=1", "hint=")
	if _, _, body := s.get("admin", "/readyz"); !strings.Contains(body, "4 values instead of 5 to 9") || !strings.Contains(body, hash) {
		t.Errorf("/readyz says %s", body)
	}
	if n := s.metric("stint_catalog_reload_last_failed"); n != 1 {
		t.Errorf("metric %v", n)
	}

	write(t, file, "7,all,/v1/orders/{id},minute,6\n8,*,/v1/items/,day,100\n")
	at = s.log.await(t, at, "catalog loaded", "files changed", "rules=2")
	if s.metric("stint_catalog_rules") != 2 || s.metric("stint_catalog_reload_last_failed") != 0 ||
		s.metric(`stint_catalog_info{hash="`+s.book.Catalog().Hash()+`"}`) != 1 || s.metric("stint_catalog_generation") < 2 {
		t.Error("the metrics say something else")
	}
	testkit.Must(t, s.Reload("SIGHUP"))
	s.log.await(t, at, "catalog loaded", "SIGHUP")
	write(t, file, "x")
	if faults, ok := errors.AsType[*rule.Errors](s.Reload("SIGHUP")); !ok || faults.List[0].File != file {
		t.Errorf("error %v", faults)
	}
}

// Rules per API in a database can be changed while the service runs, and stay after it.
func TestCatalogDB(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.db")
	with := func(c *settings.Config) { c.CatalogDB = file }
	first := start(t, with)
	if status, _, body := first.do(http.MethodPut, "admin", "/v1/rules/7", `{"uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}`); status != http.StatusCreated {
		t.Fatalf("status %d: %s", status, body)
	}
	want := fmt.Sprintf(`"catalog":{"rules":1,"generation":2,"hash":"%s","reload_error":""}`, first.book.Catalog().Hash())
	if got := first.standing(); got != want {
		t.Errorf("/v1/limits says %s, want %s", got, want)
	}

	config := settings.Default()
	config.Output = io.Discard
	with(&config)
	_, err := New(config)
	if fault, ok := errors.AsType[*settings.Error](err); !ok || !strings.Contains(fault.Problem, "in use by another process") || fault.Hint == "" {
		t.Errorf("a second service: %v", err)
	}
	first.Stop(t.Context())

	second := start(t, with)
	second.log.await(t, 0, "catalog loaded", "reason=start", "rules=1")
	if got := second.standing(); got != strings.Replace(want, ":2,", ":1,", 1) {
		t.Errorf("after a restart /v1/limits says %s, want the hash of %s", got, want)
	}
}

// Spellings of --catalog-fold are one path.
func TestCatalogFold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.csv")
	write(t, file, "7,all,/v1/orders,year,2\n")
	s := start(t, func(c *settings.Config) {
		c.Catalog, c.CatalogFold = []string{file}, []string{"case", "trailing_slash"}
	})
	for i, path := range []string{"/v1/orders", "/V1/Orders", "/v1/orders/"} {
		_, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain":"api","descriptors":[{"entries":[{"key":"path","value":"`+path+`"}]}]}`)
		if want := fmt.Sprintf(`"allowed":%v,"rule":"7"`, i < 2); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
}

func TestCatalogConfig(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.db")
	testkit.Must(t, os.WriteFile(bad, []byte(strings.Repeat("no database ", 1000)), 0o600))
	for _, tt := range []struct {
		change func(*settings.Config)
		want   string
	}{
		{func(c *settings.Config) { c.Catalog, c.CatalogDB = []string{"a.csv"}, "b.db" }, "catalog-db: catalog is given too"},
		{func(c *settings.Config) { c.CatalogDomain = "" }, "catalog-domain: empty"},
		{func(c *settings.Config) { c.CatalogFold = []string{"case", "slash"} }, `catalog-fold: unknown word "slash"`},
		{func(c *settings.Config) { c.CatalogDB = bad }, "catalog-db: " + bad + ": damaged"},
		{func(c *settings.Config) { c.CatalogDB = filepath.Join(dir, "no", "rules.db") }, "its folder is not there"},
		{func(c *settings.Config) { c.Catalog = []string{filepath.Join(dir, "no.csv")} }, "no.csv: cannot read it"},
	} {
		config := settings.Default()
		config.Output = io.Discard
		tt.change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
