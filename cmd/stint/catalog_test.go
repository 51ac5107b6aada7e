package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/httplimit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
	"stint/store/memory"
)

// orders is the rule under test: five orders a year for all users together. No year ends while a
// test runs.
const orders = "7,all,/v1/orders/{id},year,5\n"

// catalogRules writes a file of a million rules, orders among them, and of fewer in short mode.
func catalogRules(t *testing.T) (file string, n int) {
	t.Helper()
	if n = 1_000_000; testing.Short() {
		n = 20_000
	}
	var rows bytes.Buffer
	if err := samples.WriteCSV(&rows, n-1, 1); err != nil {
		t.Fatal(err)
	}
	rows.WriteString(orders)
	file = filepath.Join(t.TempDir(), "rules.csv")
	if err := os.WriteFile(file, rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, n
}

// call sends a request to a node and returns the body of the response, which must have a status.
func (n *node) call(t *testing.T, status int, method, url, kind string, body io.Reader) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	client := &http.Client{Transport: n.client.Transport, Timeout: 2 * time.Minute} // an import takes long
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s: status %d, %v: %.500s", method, url, resp.StatusCode, err, data)
	}
	return data
}

// cataloged is what the admin API of a node returns about its rules per API.
type cataloged struct {
	Rules int    `json:"rules"`
	Hash  string `json:"hash"`
}

func (n *node) cataloged(t *testing.T) cataloged {
	t.Helper()
	var limits struct {
		Catalog cataloged `json:"catalog"`
	}
	if err := json.Unmarshal(n.call(t, 200, "GET", n.admin+"/v1/limits", "", nil), &limits); err != nil {
		t.Fatal(err)
	}
	return limits.Catalog
}

// sixth sends orders 7 and 8 in turn from different users: exactly five pass.
func (n *node) sixth(t *testing.T) {
	t.Helper()
	for i := range 6 {
		body := fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": [{"key": "method", "value": "GET"},
			{"key": "path", "value": "/v1/orders/%d"}, {"key": "user", "value": "user%d"}]}]}`, 7+i%2, i)
		var a struct {
			Allowed bool
			Rule    string
		}
		if err := json.Unmarshal(n.call(t, 200, "POST", n.http+"/v1/check", "application/json", strings.NewReader(body)), &a); err != nil {
			t.Fatal(err)
		}
		if a.Allowed != (i < 5) || a.Rule != "7" {
			t.Errorf("request %d: allowed %v by rule %q", i+1, a.Allowed, a.Rule)
		}
	}
}

// A million rules are served from a file and from disk. The sixth order is denied, a change applies
// as soon as the service has answered it, and after a kill -9 the same rules are there, by their
// hash.
func TestCatalog(t *testing.T) {
	file, n := catalogRules(t)
	db := filepath.Join(t.TempDir(), "rules.db")
	const none = "domain: other\ndescriptors:\n  - key: user\n    rate_limit: {requests: 1, per: 1s}\n"

	fromFile := startNode(t, none, "--catalog="+file)
	want := fromFile.cataloged(t)
	if want.Rules != n {
		t.Fatalf("%d rules of %d", want.Rules, n)
	}
	fromFile.sixth(t)
	fromFile.kill(t)

	onDisk := startNode(t, none, "--catalog-db="+db)
	rows, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	began := time.Now()
	onDisk.call(t, 200, "POST", onDisk.admin+"/v1/rules?mode=replace", "text/csv", rows)
	t.Logf("%d rules imported in %v", n, time.Since(began).Round(time.Millisecond))
	if got := onDisk.cataloged(t); got != want {
		t.Errorf("on disk are %+v, want %+v", got, want)
	}
	onDisk.sixth(t)
	change := `{"uid": "user-x", "url": "/v1/carts/{id}", "time": "year", "requests": 0}`
	began = time.Now()
	onDisk.call(t, 201, "PUT", onDisk.admin+"/v1/rules/mine", "application/json", strings.NewReader(change))
	took := time.Since(began)
	answer := onDisk.call(t, 200, "POST", onDisk.http+"/v1/check", "application/json", strings.NewReader(
		`{"domain": "api", "descriptors": [{"entries": [{"key": "path", "value": "/v1/carts/1"}, {"key": "user", "value": "user-x"}]}]}`))
	if !bytes.Contains(answer, []byte(`"allowed":false,"rule":"mine"`)) {
		t.Errorf("a rule that was answered is not in force: %s", answer)
	}
	t.Logf("a changed rule was in force after %v", took.Round(time.Microsecond))
	want = onDisk.cataloged(t)
	onDisk.kill(t)

	behindHTTPLimit(t, db, want)

	again := startNode(t, none, "--catalog-db="+db)
	if got := again.cataloged(t); got != want {
		t.Errorf("after kill -9 there are %+v, want %+v", got, want)
	}
	again.sixth(t)
}

// kill ends a node by SIGKILL, as a power failure would.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.ended = true
	if err := n.process.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.process.ended //nolint:errcheck // it was killed
}

// behindHTTPLimit checks requests by the rules of a store through the middleware.
func behindHTTPLimit(t *testing.T, db string, want cataloged) {
	t.Helper()
	b, err := book.Open(db, catalog.Options{Domain: "api"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := (cataloged{b.Catalog().Len(), b.Catalog().Hash()}); got != want {
		t.Errorf("in the file are %+v, want %+v", got, want)
	}
	l := limiter.New(memory.New(memory.Options{}), nil, limiter.Options{Catalog: b.Catalog()})
	handler := httplimit.New(l, "api", httplimit.Options{})(http.NotFoundHandler())
	for i := range 6 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", fmt.Sprint("/v1/orders/", 7+i%2), nil))
		if want := []int{404, 429}[i/5]; w.Code != want {
			t.Errorf("request %d behind httplimit: status %d, want %d", i+1, w.Code, want)
		}
	}
}
