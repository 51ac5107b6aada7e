package ruleapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/jsonbody"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// open returns the API of an empty store on disk, the book, and its log.
func open(t *testing.T) (http.Handler, *book.Book, *strings.Builder) {
	t.Helper()
	b, err := book.Open(filepath.Join(t.TempDir(), "rules.db"), catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	log := new(strings.Builder)
	return New(b, Options{Log: slog.New(slog.NewTextHandler(log, nil))}), b, log
}

// call sends a request to a handler; header has lines "Name: value".
func call(handler http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w
}

const (
	seven = `{"uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}`
	other = `{"url":"/v1/other","time":"minute","requests":5}`
	third = `{"url":"/v1/third","time":"minute","requests":5}`
	eight = `{"id":"8","uid":"*","url":"GET /v1/items/","time":"10s","requests":100,"algorithm":"token_bucket","burst":20,"domain":"shop","policy":"deny"}`
)

func TestOneRule(t *testing.T) {
	api, _, log := open(t)
	for _, step := range []struct {
		method, path, body string
		header             string
		status             int
		want               string // the whole body or, if it ends with ..., its beginning
	}{
		{"GET", "/v1/rules/7", "", "", 404, `{"error":{"code":"not_found","message":"there is no rule \"7\"; see GET /v1/rules for those there are","context":{}}}`},
		{"PUT", "/v1/rules/7", seven, "If-Match: *", 412, `{"error":{"code":"precondition_failed","message":"there is no such rule; ...`},
		{"PUT", "/v1/rules/7", seven, "If-None-Match: *", 201, `{"id":"7","uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}`},
		{"PUT", "/v1/rules/7", seven, "If-None-Match: *", 412, `{"error":{"code":"precondition_failed","message":"the rule \"7\" is not what it was taken for; ...`},
		{"PUT", "/v1/rules/7", seven, "", 200, `{"id":"7","uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}`},
		{"GET", "/v1/rules/7", "", "", 200, `{"id":"7","uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}`},
		{"PUT", "/v1/rules/8", eight, "Content-Type: application/json; charset=utf-8", 201, eight},
		{"GET", "/v1/rules/8", "", "", 200, eight},
		{"PUT", "/v1/rules/9", eight, "", 400, `{"error":{"code":"bad_request","message":"id: \"8\" is not the id of the path; leave it out of the body, or write the same","context":{"field":"id"}}}`},
		{"PUT", "/v1/rules/9", `{"url":"/x"}`, "", 400, `{"error":{"code":"bad_request","message":"requests: missing; ...`},
		{"PUT", "/v1/rules/9", `{"url":"/x","time":"blink","requests":1}`, "", 400, `{"error":{"code":"bad_request","message":"time: \"blink\" is not a valid time...`},
		{"PUT", "/v1/rules/9", `{"url":"/x","algorithm":"unlimited"}`, "", 201, `{"id":"9","uid":"","url":"/x","algorithm":"unlimited"}`},
		{"PUT", "/v1/rules/10", seven, "Content-Type: text/plain", 415, `{"error":{"code":"unsupported_media_type","message":"a body of the type \"text/plain\"; send application/json","context":{}}}`},
		{"PUT", "/v1/rules/10", strings.Repeat(" ", maxRule+1), "", 413, `{"error":{"code":"body_too_large",...`},
		{"PUT", "/v1/rules/a%2Fb%20%E2%82%AC", other, "", 201, `{"id":"a/b €",...`},
		{"GET", "/v1/rules/a/b%20€", "", "", 200, `{"id":"a/b €",...`},
		{"PUT", "/v1/rules/%2E%2E", third, "", 201, `{"id":"..",...`},
		{"DELETE", "/v1/rules/..", "", "", 204, ``},
		{"PUT", "/v1/rules/9", seven, "", 400, `{"error":{"code":"bad_request","message":"/v1/orders/{id} for uid \"all\" per minute is already limited by rule 7...`},
		{"PUT", "/v1/rules/%00", seven, "", 400, `{"error":{"code":"bad_request","message":"id: ...`},
		{"GET", "/v1/rules/", "", "", 404, `{"error":{"code":"not_found","message":"no rule has this path; ...`},
		{"GET", "/v1/rulesx", "", "", 404, `{"error":{"code":"not_found","message":"no rule has this path; ...`},
		{"POST", "/v1/rules/7", "", "", 405, `{"error":{"code":"method_not_allowed","message":"\"POST\" is not a method of this path; use GET, HEAD, PUT, DELETE","context":{}}}`},
		{"DELETE", "/v1/rules/8", "", `If-Match: "0000000000000000"`, 412, `{"error":{"code":"precondition_failed",...`},
		{"DELETE", "/v1/rules/8", "", "", 204, ``},
		{"DELETE", "/v1/rules/8", "", "", 404, `{"error":{"code":"not_found",...`},
		{"PATCH", "/v1/rules", "", "", 405, `{"error":{"code":"method_not_allowed","message":"\"PATCH\" is not a method of this path; use GET, HEAD, POST","context":{}}}`},
	} {
		var header []string
		if step.header != "" {
			header = []string{step.header}
		}
		w := call(api, step.method, step.path, step.body, header...)
		got := strings.TrimSuffix(w.Body.String(), "\n")
		want, begins := strings.CutSuffix(step.want, "...")
		if w.Code != step.status || got != step.want && !(begins && strings.HasPrefix(got, want)) {
			t.Errorf("%s %s %s: status %d, %s\nwant %d, %s", step.method, step.path, step.header, w.Code, got, step.status, step.want)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", step.method, step.path)
		}
	}
	if !strings.Contains(log.String(), `msg="rule put" id=7 created=true`) || !strings.Contains(log.String(), `msg="rule deleted" id=8`) {
		t.Errorf("the log says\n%s", log)
	}
}

// If two callers change a rule that both have read, the second change is refused.
func TestLostUpdate(t *testing.T) {
	api, _, _ := open(t)
	first := call(api, "PUT", "/v1/rules/7", seven).Header().Get("ETag")
	seen := call(api, "GET", "/v1/rules/7", "").Header().Get("ETag")
	if first == "" || seen != first {
		t.Fatalf("tags %q and %q", first, seen)
	}
	if w := call(api, "GET", "/v1/rules/7", "", "If-None-Match: "+seen); w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	change := strings.Replace(seven, ":5", ":6", 1)
	if w := call(api, "PUT", "/v1/rules/7", change, `If-Match: "other", `+seen); w.Code != 200 || w.Header().Get("ETag") == seen {
		t.Errorf("the first: status %d, tag %s", w.Code, w.Header().Get("ETag"))
	}
	if w := call(api, "PUT", "/v1/rules/7", strings.Replace(seven, ":5", ":7", 1), "If-Match: "+seen); w.Code != 412 {
		t.Errorf("the second: status %d, %s", w.Code, w.Body)
	}
	if w := call(api, "GET", "/v1/rules/7", ""); !strings.Contains(w.Body.String(), `"requests":6`) {
		t.Errorf("in force is %s", w.Body)
	}
	weak := "W/" + call(api, "GET", "/v1/rules/7", "").Header().Get("ETag")
	if w := call(api, "DELETE", "/v1/rules/7", "", "If-Match: "+weak); w.Code != 412 {
		t.Errorf("a weak tag counts for a change: status %d", w.Code)
	}
	if w := call(api, "GET", "/v1/rules/7", "", "If-None-Match: "+weak); w.Code != 304 {
		t.Errorf("a weak tag does not count for a look: status %d", w.Code)
	}
}

// page reads a page of rules.
func page(t *testing.T, api http.Handler, query string) (ids string, next *string, answer listAnswer) {
	t.Helper()
	w := call(api, "GET", "/v1/rules?"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
		t.Fatalf("%s: status %d, %v: %s", query, w.Code, err, w.Body)
	}
	if want := `"` + answer.Hash + `"`; w.Header().Get("ETag") != want {
		t.Errorf("ETag %s, want %s", w.Header().Get("ETag"), want)
	}
	for _, r := range answer.Rules {
		ids += r.ID + " "
	}
	return ids, answer.Next, answer
}

func TestImportAndPages(t *testing.T) {
	api, b, log := open(t)
	var rows strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&rows, "%04d,user-%d,/v1/things/%d,minute,5,,,%s\n", i, i%5, i, []string{"", "shop"}[i%2])
	}
	w := call(api, "POST", "/v1/rules?mode=replace", rows.String(), "Content-Type: text/csv")
	var done importAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &done); err != nil || w.Code != 200 || done.Imported != 2500 || done.Count != 2500 || done.Hash != b.Catalog().Hash() {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), `msg="rules imported" imported=2500 replace=true`) {
		t.Errorf("the log says\n%s", log)
	}
	seen, pages, next := "", 0, new(string)
	for next != nil {
		var ids string
		ids, next, _ = page(t, api, "limit=1000&after="+*next)
		seen += ids
		pages++
	}
	if pages != 3 || len(strings.Fields(seen)) != 2500 {
		t.Errorf("%d pages with %d rules", pages, len(strings.Fields(seen)))
	}
	for query, want := range map[string]string{
		"limit=3":                               "0000 0001 0002 ",
		"limit=2&after=0001":                    "0002 0003 ",
		"limit=2&after=0001x":                   "0002 0003 ",
		"limit=2&uid=user-3":                    "0003 0008 ",
		"limit=2&uid=user-3&domain=shop":        "0003 0013 ",
		"limit=2&after=0003&domain=":            "0004 0006 ",
		"limit=2&after=2497":                    "2498 2499 ",
		"after=2499":                            "",
		"uid=nobody":                            "",
		"uid=user-3&domain=shop&after=2480":     "2483 2493 ",
		"limit=1&uid=user-4&after=" + "2498":    "2499 ",
		"limit=1&after=" + url.QueryEscape("€"): "",
	} {
		ids, next, answer := page(t, api, query)
		if ids != want {
			t.Errorf("%s: %q, want %q", query, ids, want)
		}
		if last := ids == "" || strings.HasSuffix(ids, "2499 ") || strings.HasSuffix(ids, "2493 "); last != (next == nil) {
			t.Errorf("%s: next %v", query, next)
		}
		if answer.Count != 2500 || answer.Generation == 0 {
			t.Errorf("%s: count %d, generation %d", query, answer.Count, answer.Generation)
		}
	}
	lines := `{"id":"0001","url":"/x","time":"minute","requests":1}` + "\n"
	for _, kind := range []string{"application/jsonl", "application/x-ndjson; charset=utf-8"} {
		if w := call(api, "POST", "/v1/rules", lines, "Content-Type: "+kind, `If-Match: "`+b.Catalog().Hash()+`"`); w.Code != 200 || !strings.HasPrefix(w.Body.String(), `{"imported":1,"count":2500,`) {
			t.Errorf("%s: status %d: %s", kind, w.Code, w.Body)
		}
	}
}

// A refused request has a reason and changes nothing.
func TestRefused(t *testing.T) {
	api, b, _ := open(t)
	call(api, "PUT", "/v1/rules/7", seven)
	for _, tt := range []struct {
		method, path, body, header string
		status                     int
		want                       string
	}{
		{"GET", "/v1/rules?limit=0", "", "", 400, `"limit: \"0\" is not a valid number of rules; write a whole number from 1 to 1000","context":{"field":"limit"}`},
		{"GET", "/v1/rules?limit=", "", "", 400, `is not a valid number of rules`},
		{"GET", "/v1/rules?user=x", "", "", 400, `unknown parameter \"user\"; known here are after, limit, uid, domain`},
		{"GET", "/v1/rules?uid=x&uid=y", "", "", 400, `uid: given twice`},
		{"GET", "/v1/rules?uid=" + strings.Repeat("x", 256), "", "", 400, `uid: longer than 255 bytes`},
		{"PUT", "/v1/rules/7", seven, "If-Match: abc", 400, `If-Match: neither a star nor entity tags`},
		{"DELETE", "/v1/rules/7", "", "If-Match: \"a\" \"b\"", 400, `If-Match: neither a star nor entity tags`},
		{"DELETE", "/v1/rules/7", "", "If-None-Match: \"a\"", 400, `If-None-Match: not a star`},
		{"GET", "/v1/rules?a=%zz", "", "", 400, `the query cannot be read`},
		{"POST", "/v1/rules", "x", "", 415, `a body without a type; send text/csv or application/jsonl`},
		{"POST", "/v1/rules", "x", "Content-Type: application/json", 415, `send text/csv or application/jsonl`},
		{"POST", "/v1/rules?mode=add", "", "Content-Type: text/csv", 400, `\"add\" is not a mode; write merge`},
		{"POST", "/v1/rules", "a,all,/x,minute,5\nb\n", "Content-Type: text/csv", 400, `"line 2: 1 values instead of 5 to 9; `},
		{"POST", "/v1/rules", "a\nb\n", "Content-Type: text/csv", 400, `"context":{"faults":[{"line":1,"problem":"1 values instead of 5 to 9","hint":"`},
		{"POST", "/v1/rules", "8,all,/v1/orders/{x},60s,6\n", "Content-Type: text/csv", 400, `"rule 8: /v1/orders/{x} for uid \"all\" per 60s is already limited by rule 7`},
		{"POST", "/v1/rules", "", "Content-Type: text/csv\nIf-Match: abc", 400, `If-Match: not one hash in double quotes`},
		{"POST", "/v1/rules?mode=replace", "", "Content-Type: text/csv", 400, `the file is empty; write an empty line`},
		{"POST", "/v1/rules", "\n", "Content-Type: text/csv\nIf-Match: \"abc\"", 412, `"context":{"hash":"` + b.Catalog().Hash() + `"}`},
	} {
		w := call(api, tt.method, tt.path, tt.body, strings.Split(tt.header, "\n")...)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s %q: status %d, %s\nwant %d, %s", tt.method, tt.path, tt.body, w.Code, w.Body, tt.status, tt.want)
		}
	}
	if ids, _, _ := page(t, api, ""); ids != "7 " {
		t.Errorf("in force are %q", ids)
	}
}

// Rules of files can be read but not changed.
func TestReadOnly(t *testing.T) {
	api := New(book.New(catalog.Options{}), Options{})
	for _, method := range []string{"PUT", "DELETE"} {
		if w := call(api, method, "/v1/rules/7", seven); w.Code != 409 || !strings.Contains(w.Body.String(), `"code":"read_only"`) {
			t.Errorf("%s: status %d: %s", method, w.Code, w.Body)
		}
	}
	if w := call(api, "POST", "/v1/rules", "", "Content-Type: text/csv"); w.Code != 409 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if ids, next, _ := page(t, api, ""); ids != "" || next != nil {
		t.Errorf("rules %q, next %v", ids, next)
	}
}

// A change that cannot be written is an error of the service.
func TestNotSaved(t *testing.T) {
	api, b, log := open(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	w := call(api, "PUT", "/v1/rules/7", seven)
	if w.Code != 507 || !strings.Contains(w.Body.String(), `"code":"not_saved"`) || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("status %d: %s\n%s", w.Code, w.Body, log)
	}
	log.Reset()
	call(api, "PUT", "/v1/rules/person?x=person", seven)
	if strings.Contains(log.String(), "person") || !strings.Contains(log.String(), "path=/v1/rules/... ") {
		t.Errorf("the log has more of the path than its route:\n%s", log)
	}
}

// Each change that was made is announced, with the rule before and after; a refused one is not.
func TestChangesAreAnnounced(t *testing.T) {
	b, err := book.Open(filepath.Join(t.TempDir(), "rules.db"), catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var announced []string
	var fault *jsonbody.Fault
	api := New(b, Options{Changed: func(_ *http.Request, action, id string, before, after any) *jsonbody.Fault {
		announced = append(announced, fmt.Sprint(action, " ", id, " ", before != nil, after != nil))
		return fault
	}})
	for _, step := range []struct {
		method, path, body, header, want string
		status                           int
	}{
		{"PUT", "/v1/rules/7", seven, "If-Match: *", "", 412},
		{"PUT", "/v1/rules/7", `{"url":"/x"}`, "", "", 400},
		{"PUT", "/v1/rules/7", seven, "", "put 7 false true", 201},
		{"PUT", "/v1/rules/7", seven, "", "put 7 true true", 200},
		{"PUT", "/v1/rules/8", seven, "", "", 400}, // the same limit under another id
		{"DELETE", "/v1/rules/7", "", "", "delete 7 true false", 204},
		{"DELETE", "/v1/rules/7", "", "", "", 404},
		{"POST", "/v1/rules", "9,all,/v1/x,minute,5\n", "Content-Type: text/csv", "import (import) false true", 200},
	} {
		announced = nil
		var header []string
		if step.header != "" {
			header = []string{step.header}
		}
		w := call(api, step.method, step.path, step.body, header...)
		if got := strings.Join(announced, ", "); w.Code != step.status || got != step.want {
			t.Errorf("%s %s: %d, announced %q; want %d, %q", step.method, step.path, w.Code, got, step.status, step.want)
		}
	}
	fault = &jsonbody.Fault{Status: http.StatusServiceUnavailable, Problem: "no room"}
	if w := call(api, "PUT", "/v1/rules/7", seven); w.Code != 503 {
		t.Errorf("a fault is answered %d", w.Code)
	}
}
