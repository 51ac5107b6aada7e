package recordapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/testkit"
	"stint/records"
	"stint/records/apikey"
	"stint/rule"
	"stint/server/access"
)

// open returns the API of an empty file, the file, and its log.
func open(t *testing.T) (http.Handler, *records.File, *strings.Builder) {
	t.Helper()
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = f.Close() }) // some tests close it
	log := new(strings.Builder)
	return New(f, Options{Log: slog.New(slog.NewTextHandler(log, nil)), SupportFor: 24 * time.Hour}), f, log
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

// changed matches the time of a record in an answer.
var changed = regexp.MustCompile(`"changed":"[^"]+"`)

// expect compares an answer. A want that ends with ... is its beginning.
func expect(t *testing.T, what string, w *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	got := changed.ReplaceAllString(strings.TrimSuffix(w.Body.String(), "\n"), `"changed":"T"`)
	prefix, begins := strings.CutSuffix(want, "...")
	if w.Code != status || got != want && !(begins && strings.HasPrefix(got, prefix)) {
		t.Errorf("%s: status %d, %s\nwant %d, %s", what, w.Code, got, status, want)
	}
}

func TestRecords(t *testing.T) {
	api, _, log := open(t)
	for i, step := range []struct {
		method, path, body, header string
		status                     int
		want                       string
	}{
		// The form with the name in the body.
		{"PUT", "/v1/bans", `{"subject":"user=42","why":"abuse"}`, "", 201, `{"subject":"user=42","why":"abuse","revision":1,"changed":"T"}`},
		{"PUT", "/v1/bans", `{"subject":"user=42","until":"1h"}`, "", 200, `{"subject":"user=42","until":"2...`},
		{"PUT", "/v1/bans", `{"network":"192.0.2.0/24"}`, "", 201, `{"network":"192.0.2.0/24","revision":3,"changed":"T"}`},
		{"PUT", "/v1/bans", `{"address":"2001:db8::1"}`, "", 201, `{"address":"2001:db8::1","revision":4,"changed":"T"}`},
		{"PUT", "/v1/overrides", `{"subject":"user=a/b","rule":"api/user","requests":10,"per":"90s"}`, "", 201, `{"subject":"user=a/b","rule":"api/user","requests":10,"per":"90s","revision":5,"changed":"T"}`},
		{"PUT", "/v1/overrides", `{"pattern":"user=test-*","rule":"api/user","unlimited":true}`, "", 201, `{"pattern":"user=test-*",...`},
		{"PUT", "/v1/subjects", `{"subject":"user=a/b","kind":"user","plan":"gold","groups":["x","y"]}`, "", 201, `{"subject":"user=a/b","kind":"user","plan":"gold","groups":["x","y"],"revision":7,"changed":"T"}`},
		// Names in paths.
		{"GET", "/v1/subjects/user=a%2Fb", "", "", 200, `{"subject":"user=a/b",...`},
		{"GET", "/v1/subjects/user=a/b", "", "", 200, `{"subject":"user=a/b",...`},
		{"GET", "/v1/bans/192.0.2.0%2F24", "", "", 200, `{"network":"192.0.2.0/24",...`},
		{"GET", "/v1/bans/192.0.2.0/24", "", "", 200, `{"network":"192.0.2.0/24",...`},
		{"GET", "/v1/bans/2001:db8::1", "", "", 200, `{"address":"2001:db8::1",...`},
		{"GET", "/v1/overrides/user=a%2Fb/api/user", "", "", 200, `{"subject":"user=a/b","rule":"api/user",...`},
		{"GET", "/v1/overrides/user=test-*/api%2Fuser", "", "", 200, `{"pattern":"user=test-*",...`},
		{"PUT", "/v1/subjects/user=%20%E2%82%AC%2Ferase", `{"kind":"user"}`, "", 201, `{"subject":"user= €/erase",...`},
		{"GET", "/v1/subjects/user=%20%E2%82%AC%2Ferase", "", "", 200, `{"subject":"user= €/erase",...`},
		{"PUT", "/v1/bans/user=..%2F..", ``, "", 201, `{"subject":"user=../..",...`},
		{"DELETE", "/v1/bans/user=..%2F..", ``, "", 204, ``},
		{"PUT", "/v1/bans/user=1", `{"subject":"user=2"}`, "", 400, `{"error":{"code":"bad_request","message":"the body names another ban than the path; leave it out of the body, or write the same","context":{}}}`},
		{"PUT", "/v1/overrides/user=9/api%2Fuser", `{"unlimited":true}`, "", 201, `{"subject":"user=9","rule":"api/user","unlimited":true,...`},
		// Mistakes.
		{"PUT", "/v1/bans", `{}`, "", 400, `{"error":{"code":"bad_request","message":"subject: missing; name a subject such as user=42, an address or a network","context":{"field":"subject"}}}`},
		{"PUT", "/v1/bans", `{"subject":"user=1","until":"friday"}`, "", 400, `{"error":{"code":"bad_request","message":"until: \"friday\" is neither a time nor a length of time; ...`},
		{"PUT", "/v1/bans", `{"subject":"user=1","until":"2020-01-01T00:00:00Z"}`, "", 400, `{"error":{"code":"bad_request","message":"until: 2020-01-01T00:00:00Z is not in the future; ...`},
		{"PUT", "/v1/bans", `{"address":"10.0.0.0/8"}`, "", 400, `{"error":{"code":"bad_request","message":"address: \"10.0.0.0/8\" is a network; write it as network",...`},
		{"PUT", "/v1/bans", `{"network":"10.0.0.0/7"}`, "", 400, `{"error":{"code":"bad_request","message":"network: larger than a /8; name smaller networks, or use force",...`},
		{"PUT", "/v1/bans", `{"address":"127.0.0.1"}`, "", 400, `{"error":{"code":"bad_request","message":"address: the ban would deny programs on this machine ...`},
		{"PUT", "/v1/bans", `{"network":"10.0.0.0/7","force":true}`, "", 201, `{"network":"10.0.0.0/7",...`},
		{"PUT", "/v1/bans", `{"network":"ten"}`, "", 400, `{"error":{"code":"bad_request","message":"network: \"ten\" is neither a network nor an address; ...`},
		{"PUT", "/v1/bans", `{"user":"42"}`, "", 400, `{"error":{"code":"bad_request","message":"unknown field \"user\"; known here are subject, address, network, until, why, force",...`},
		{"PUT", "/v1/bans", `[]`, "", 400, `{"error":{"code":"bad_request",...`},
		{"PUT", "/v1/bans", `{"subject":"user=1"}`, "Content-Type: text/plain", 415, `{"error":{"code":"unsupported_media_type",...`},
		{"PUT", "/v1/bans", strings.Repeat(" ", maxBody+1), "", 413, `{"error":{"code":"body_too_large",...`},
		{"PUT", "/v1/overrides", `{"subject":"user=*","rule":"r","requests":1}`, "", 400, `{"error":{"code":"bad_request","message":"subject: \"user=*\" has a star; ...`},
		{"PUT", "/v1/overrides", `{"pattern":"user=*","rule":"r","requests":1}`, "", 400, `{"error":{"code":"bad_request","message":"pattern: user=* matches everybody; ...`},
		{"PUT", "/v1/overrides", `{"subject":"user=1","rule":"r","per":"5"}`, "", 400, `{"error":{"code":"bad_request","message":"per: \"5\": a number without a unit; ...`},
		{"PUT", "/v1/subjects", `{"subject":"user=` + strings.Repeat("x", 10<<10) + `","kind":"user"}`, "", 400, `{"error":{"code":"bad_request","message":"subject: 10245 bytes, at most 1024; ...`},
		{"PUT", "/v1/bans", `{"subject":"user=1"}`, "X-Stint-Why: " + strings.Repeat("x", 5000), 400, `{"error":{"code":"bad_request","message":"X-Stint-Why: longer than...`},
		{"PUT", "/v1/bans", `{"subject":"user=1","why":"` + strings.Repeat("x", 5000) + `"}`, "", 400, `{"error":{"code":"bad_request","message":"why: longer than...`},
		{"GET", "/v1/bans/user=77", "", "", 404, `{"error":{"code":"not_found","message":"there is no ban user=77; see GET /v1/bans for those there are","context":{}}}`},
		{"DELETE", "/v1/bans/user=77", "", "", 404, `{"error":{"code":"not_found","message":"there is no ban user=77; ...`},
		{"GET", "/v1/bans/", "", "", 404, `{"error":{"code":"not_found","message":"nothing has this path; ...`},
		{"GET", "/v1/overrides/user=1", "", "", 404, `{"error":{"code":"not_found","message":"no override has this path; ...`},
		{"GET", "/v1/records/x", "", "", 404, `{"error":{"code":"not_found",...`},
		{"GET", "/v1/audit/x", "", "", 404, `{"error":{"code":"not_found",...`},
		{"POST", "/v1/bans", "", "", 405, `{"error":{"code":"method_not_allowed","message":"\"POST\" is not a method of this path; use GET, HEAD, PUT","context":{}}}`},
		{"GET", "/v1/bans?limit=0", "", "", 400, `{"error":{"code":"bad_request","message":"limit: ...`},
		{"GET", "/v1/bans?plan=x", "", "", 400, `{"error":{"code":"bad_request","message":"unknown parameter \"plan\"; known here are after, limit",...`},
		{"GET", "/v1/audit?since=yesterday", "", "", 400, `{"error":{"code":"bad_request","message":"since: ...`},
		{"GET", "/v1/audit?before=x", "", "", 400, `{"error":{"code":"bad_request","message":"before: ...`},
		{"GET", "/v1/audit/verify?head=x", "", "", 400, `{"error":{"code":"bad_request","message":"head: not a head...`},
		{"GET", "/v1/audit/verify?head=0:" + strings.Repeat("0", 64) + ",x", "", "", 400, `{"error":{"code":"bad_request","message":"head: not a head...`},
	} {
		var header []string
		if step.header != "" {
			header = []string{step.header}
		}
		w := call(api, step.method, step.path, step.body, header...)
		expect(t, fmt.Sprintf("%d: %s %s %.80s", i, step.method, step.path, step.body), w, step.status, step.want)
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", step.method, step.path)
		}
	}
	if !strings.Contains(log.String(), `msg="records changed" method=PUT records=1 revision=1`) {
		t.Errorf("the log says\n%s", log)
	}
}

// If two callers change a record that both have read, the second change is refused.
func TestLostUpdate(t *testing.T) {
	api, _, _ := open(t)
	const path, body = "/v1/subjects/user=1", `{"kind":"user"}`
	expect(t, "none yet", call(api, "PUT", path, body, "If-Match: *"), 412, `{"error":{"code":"precondition_failed",...`)
	expect(t, "a new one", call(api, "PUT", path, body, "If-None-Match: *"), 201, `{...`)
	expect(t, "a second new one", call(api, "PUT", path, body, "If-None-Match: *"), 412, `{"error":{"code":"precondition_failed","message":"subject user=1: exists already; ...`)
	seen := call(api, "GET", path, "").Header().Get("ETag")
	expect(t, "no news", call(api, "GET", path, "", "If-None-Match: "+seen), 304, "")
	expect(t, "the first", call(api, "PUT", path, `{"kind":"user","plan":"a"}`, "If-Match: "+seen), 200, `{...`)
	expect(t, "the second", call(api, "PUT", path, `{"kind":"user","plan":"b"}`, "If-Match: "+seen), 412, `{"error":{"code":"precondition_failed","message":"subject user=1: changed since revision 1: it has revision 2; ...`)
	expect(t, "a late deletion", call(api, "DELETE", path, "", "If-Match: "+seen), 412, `{...`)
	expect(t, "the future", call(api, "PUT", path, body, `If-Match: "77"`), 412, `{"error":{"code":"precondition_failed","message":"subject user=1: revision 77 does not exist yet...`)
	expect(t, "one of several", call(api, "PUT", path, body, `If-Match: "77", "2"`), 200, `{...`)
	expect(t, "no tag", call(api, "PUT", path, body, `If-Match: 2`), 400, `{...`)
	// Without a name in the path it is the revision of the whole.
	whole := call(api, "GET", "/v1/bans", "").Header().Get("ETag")
	expect(t, "the first ban", call(api, "PUT", "/v1/bans", `{"subject":"user=1"}`, "If-Match: "+whole), 201, `{...`)
	expect(t, "the second ban", call(api, "PUT", "/v1/bans", `{"subject":"user=2"}`, "If-Match: "+whole), 412, `{"error":{"code":"precondition_failed","message":"records: ...`)
}

// A repeat with the same idempotency key has the outcome of the first, and a key is for one request.
func TestIdempotency(t *testing.T) {
	api, f, _ := open(t)
	const key = "Idempotency-Key: 7"
	first := call(api, "PUT", "/v1/bans", `{"subject":"user=1"}`, key)
	expect(t, "first", first, 201, `{"subject":"user=1","revision":1,"changed":"T"}`)
	expect(t, "repeat", call(api, "PUT", "/v1/bans", `{"subject":"user=1"}`, key), 200, `{"subject":"user=1","revision":1,"changed":"T","repeated":true}`)
	expect(t, "other", call(api, "PUT", "/v1/bans", `{"subject":"user=2"}`, key), 422, `{"error":{"code":"idempotency_key_reused",...`)
	made := call(api, "POST", "/v1/keys", `{"subject":"user=1"}`, "Idempotency-Key: 8")
	again := call(api, "POST", "/v1/keys", `{"subject":"user=1"}`, "Idempotency-Key: 8")
	var one, two newKey
	testkit.Must(t, json.Unmarshal(made.Body.Bytes(), &one))
	testkit.Must(t, json.Unmarshal(again.Body.Bytes(), &two))
	if one.Key == "" || two.Key != "" || one.Hash != two.Hash || !two.Repeated || made.Code != 201 || again.Code != 200 {
		t.Errorf("%s%s", made.Body, again.Body)
	}
	if n, err := f.Count(records.APIKeys); n != 1 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestKeys(t *testing.T) {
	api, f, log := open(t)
	create := func(path, body string) (k newKey) {
		t.Helper()
		w := call(api, "POST", path, body)
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &k))
		if parsed, err := apikey.Parse(k.Key); w.Code != 201 || err != nil || parsed.Hash().String() != k.Hash || parsed.LastFour() != k.Last {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return k
	}
	one := create("/v1/keys", `{"subject":"user=42","prefix":"acme_live","until":"30d","why":"order 7"}`)
	if !strings.HasPrefix(one.Key, "acme_live_") || one.Subject != "user=42" || one.Until == "" {
		t.Errorf("%+v", one)
	}
	expect(t, "show", call(api, "GET", "/v1/keys/"+one.Hash[:8], ""), 200, `{"hash":"`+one.Hash+`",...`)
	two := create("/v1/keys/"+one.Hash[:10]+"/replace", `{"overlap":"1h"}`)
	if two.Replaces != one.Hash || two.Subject != "user=42" {
		t.Errorf("%+v", two)
	}
	expect(t, "a third", call(api, "POST", "/v1/keys/"+two.Hash+"/replace", ``), 409, `{"error":{"code":"conflict",...`)
	expect(t, "another replacement", call(api, "POST", "/v1/keys/"+one.Hash+"/replace", ``), 409, `{"error":{"code":"conflict",...`)
	for _, text := range []string{one.Key, two.Key} {
		parsed, err := apikey.Parse(text)
		testkit.Must(t, err)
		if valid, err := f.Key(parsed.Hash(), two.Changed); valid == nil || err != nil {
			t.Errorf("%v, %v", valid, err)
		}
	}
	expect(t, "list", call(api, "GET", "/v1/keys?subject=user%3D42&limit=1", ""), 200, `{"records":[{"hash":...`)
	expect(t, "of nobody", call(api, "GET", "/v1/keys?subject=user%3D43", ""), 200, `{"records":[],"next":null,"revision":2}`)
	expect(t, "revoke", call(api, "POST", "/v1/keys/"+one.Hash+"/revoke", ""), 204, ``)
	expect(t, "delete", call(api, "DELETE", "/v1/keys/"+two.Hash, ""), 204, ``)
	expect(t, "gone", call(api, "DELETE", "/v1/keys/"+two.Hash, ""), 404, `{"error":{"code":"not_found",...`)
	for _, w := range []*httptest.ResponseRecorder{
		call(api, "GET", "/v1/keys/"+one.Key, ""),
		call(api, "GET", "/v1/keys/abc", ""),
		call(api, "POST", "/v1/keys", `{"subject":"user=42","prefix":"`+one.Key+`"}`),
	} {
		if w.Code != 404 && w.Code != 400 || len(one.Key) > 40 && strings.Contains(w.Body.String(), one.Key) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	expect(t, "prefix", call(api, "POST", "/v1/keys", `{"subject":"user=42","prefix":"7"}`), 400, `{"error":{"code":"bad_request","message":"prefix: ...`)
	expect(t, "overlap", call(api, "POST", "/v1/keys/"+one.Hash+"/replace", `{"overlap":"0s"}`), 404, `{...`)
	trail := call(api, "GET", "/v1/audit", "").Body.String()
	for _, secret := range []string{one.Key, two.Key} {
		if strings.Contains(trail, secret) || strings.Contains(log.String(), secret) {
			t.Error("a key is in the audit trail or in the log")
		}
	}
}

// Pages, filters, and all records once.
func TestPages(t *testing.T) {
	api, f, _ := open(t)
	var c records.Change
	for i := range 2500 {
		c.Edits = append(c.Edits, records.Edit{Put: records.Override{Target: fmt.Sprintf("user=%04d", i%1250), Rule: fmt.Sprint("r", i/1250), Unlimited: true}})
	}
	_, err := f.Apply(t.Context(), c, time.Now())
	testkit.Must(t, err)
	seen := map[string]bool{}
	for after := ""; ; {
		var page pageAnswer
		r := httptest.NewRequest("GET", "/v1/overrides", nil)
		query := r.URL.Query()
		query.Set("limit", "999")
		query.Set("after", after)
		r.URL.RawQuery = query.Encode()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, s := range page.Records {
			seen[s.Subject+" "+s.Rule] = true
		}
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if len(seen) != 2500 {
		t.Errorf("%d records", len(seen))
	}
	expect(t, "filter", call(api, "GET", "/v1/overrides?subject=user%3D0007&rule=r1", ""), 200, `{"records":[{"subject":"user=0007","rule":"r1","unlimited":true,"revision":1,"changed":"T"}],"next":null,"revision":1}`)
	for path, want := range map[string]string{"subject=user%3D1249&limit=1": "user=1249 r0 more", "subject=user%3D1249&after=user%3D1249%0Ar0": "user=1249 r1", "subject=user%3D124": "", "subject=user%3D0007&after=user%3D0008": ""} {
		var page pageAnswer
		testkit.Must(t, json.Unmarshal(call(api, "GET", "/v1/overrides?"+path, "").Body.Bytes(), &page))
		got := ""
		for _, s := range page.Records {
			got += s.Subject + " " + s.Rule
		}
		if page.Next != nil {
			got += " more"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if n := testing.AllocsPerRun(5, func() { call(api, "GET", "/v1/overrides?subject=user%3D1249", "") }); n > 500 {
		t.Errorf("the list of the last subject makes %v allocations: it reads those of others", n)
	}
}

// callers returns the API behind a guard, and a function that calls it with a role.
func callers(t *testing.T, api http.Handler) func(role, method, path, body string, header ...string) *httptest.ResponseRecorder {
	tokens, lines := map[string]string{}, ""
	for _, role := range []string{"read", "support", "write"} {
		token, credential := access.NewToken()
		tokens[role] = token
		lines += role + "er " + role + " " + credential + "\n"
	}
	list, err := access.Parse("access", []byte(lines))
	testkit.Must(t, err)
	guard := access.Guard{Lists: []func() *access.List{func() *access.List { return list }}, Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler)}}
	guarded := guard.Require(access.Read, api.ServeHTTP)
	return func(role, method, path, body string, header ...string) *httptest.ResponseRecorder {
		return call(guarded, method, path, body, append(header, "Authorization: Bearer "+tokens[role])...)
	}
}

// What the roles may do where the method alone does not say it.
func TestRoles(t *testing.T) {
	api, _, _ := open(t)
	as := callers(t, api)
	const forever, ends = `{"subject":"user=1","rule":"r","unlimited":true}`, `{"subject":"user=1","rule":"r","unlimited":true,"until":"1h"}`
	const day, long = `{"subject":"user=1","rule":"r","unlimited":true,"until":"1d"}`, `{"subject":"user=1","rule":"r","unlimited":true,"until":"24h2s"}`
	for i, step := range []struct {
		role, method, path, body string
		status                   int
	}{
		{"read", "PUT", "/v1/bans", `{"subject":"user=1"}`, 403},
		{"read", "GET", "/v1/bans", "", 200},
		{"support", "PUT", "/v1/bans", `{"subject":"user=1"}`, 201},
		{"support", "PUT", "/v1/bans", `{"network":"10.0.0.0/7","force":true}`, 403},
		{"write", "PUT", "/v1/bans", `{"network":"10.0.0.0/7","force":true}`, 201},
		{"support", "DELETE", "/v1/bans/user=1", "", 204},
		{"support", "PUT", "/v1/overrides", forever, 403},
		{"support", "PUT", "/v1/overrides", ends, 201},
		{"support", "PUT", "/v1/overrides", ends, 200},
		{"support", "DELETE", "/v1/overrides/user=1/r", "", 204},
		{"support", "PUT", "/v1/overrides", day, 201},
		{"support", "PUT", "/v1/overrides", long, 403},
		{"write", "PUT", "/v1/overrides", long, 200},
		{"support", "PUT", "/v1/overrides", day, 403},
		{"support", "DELETE", "/v1/overrides/user=1/r", "", 403},
		{"write", "PUT", "/v1/overrides", forever, 200},
		{"support", "PUT", "/v1/overrides", ends, 403},
		{"support", "DELETE", "/v1/overrides/user=1/r", "", 403},
		{"write", "DELETE", "/v1/overrides/user=1/r", "", 204},
		{"support", "PUT", "/v1/subjects", `{"subject":"user=1","kind":"user"}`, 403},
		{"support", "POST", "/v1/keys", `{"subject":"user=1"}`, 403},
		{"support", "POST", "/v1/records/import", "", 403},
		{"support", "POST", "/v1/subjects/user=1/erase", "", 403},
		{"read", "GET", "/v1/records/export", "", 200},
	} {
		if w := as(step.role, step.method, step.path, step.body); w.Code != step.status {
			t.Errorf("%d: %s %s %s %s: %d %s", i, step.role, step.method, step.path, step.body, w.Code, w.Body)
		}
	}
}

// The audit trail says who changed what, from where and why; it can be searched, and verified.
func TestAudit(t *testing.T) {
	api, f, _ := open(t)
	as := callers(t, api)
	as("support", "PUT", "/v1/bans", `{"subject":"user=1","why":"abuse"}`)
	as("support", "PUT", "/v1/overrides", `{"subject":"user=2","rule":"api/user","requests":10,"until":"1h"}`, "X-Stint-Why: raised for the sale")
	as("write", "DELETE", "/v1/bans/user=1", "", "X-Stint-Why: appeal")
	r := httptest.NewRequest("POST", "/v1/reset", nil)
	if fault := Note(f, r, records.Event{Action: "reset", Object: records.ID{Kind: records.Limits, Name: "api/user user=2"}, Subjects: []string{"user=2"}}, map[string]int{"used": 7}, nil); fault != nil {
		t.Fatal(fault.Message())
	}
	list := func(query string) (numbers []uint64, answer auditAnswer) {
		w := as("read", "GET", "/v1/audit?"+query, "")
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &answer))
		for _, e := range answer.Entries {
			numbers = append(numbers, e.Number)
		}
		return numbers, answer
	}
	for query, want := range map[string]string{
		"": "[4 3 2 1]", "limit=2": "[4 3]", "before=3": "[2 1]", "subject=user%3D1": "[3 1]", "subject=user%3D2": "[4 2]", "rule=api/user": "[4 2]",
		"who=writeer": "[3]", "since=1h": "[4 3 2 1]", "since=2100-01-01T00:00:00Z": "[]", "rule=api/user&who=supporter": "[2]",
	} {
		if got, _ := list(query); fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	_, answer := list("limit=3")
	raised := answer.Entries[2]
	if raised.Actor != "supporter" || raised.From != "192.0.2.1" || raised.Why != "raised for the sale" || raised.Until.IsZero() || !strings.Contains(string(raised.After), `"requests":10`) || answer.Next == nil || *answer.Next != "2" {
		t.Errorf("%+v", answer)
	}
	expect(t, "verify", as("read", "GET", "/v1/audit/verify?head=4:"+answer.Head.Hash, ""), 200, `{"whole":true,"first":1,"since":"2...`)
	expect(t, "two heads, the first wrong", as("read", "GET", "/v1/audit/verify?head=4:"+strings.Repeat("0", 64)+",4:"+answer.Head.Hash, ""), 200, `{"whole":false,...`)
	expect(t, "another head", as("read", "GET", "/v1/audit/verify?head=5:"+answer.Head.Hash, ""), 200, `{"whole":false,...`)
	expect(t, "export", as("read", "GET", "/v1/subjects/user=2/export", ""), 200, `{"subject":"user=2","records":[{"record":"override","subject":"user=2",...`)
	expect(t, "erase", as("write", "POST", "/v1/subjects/user=2/erase", ""), 200, `{"revision":4,"records":1,"entries":2}`)
	expect(t, "erase again", as("write", "POST", "/v1/subjects/user=2/erase", ""), 404, `{"error":{"code":"not_found","message":"nothing is kept of user=2; ...`)
	expect(t, "verify after", as("read", "GET", "/v1/audit/verify", ""), 200, `{"whole":true,"first":1,...`)
	expect(t, "status", as("read", "GET", "/v1/records", ""), 200, `{"revision":4,"age_ms":0,"writable":true,"error":"","kinds":{"ban":0,"grant":0,"key":0,"override":0,"plan":0,"rule":0,"subject":0},"head":{"number":...`)
}

func TestTransfer(t *testing.T) {
	api, _, _ := open(t)
	const lines = "application/jsonl"
	const text = `{"record":"ban","subject":"user=1"}` + "\n" + `{"record":"end","count":1}` + "\n"
	send := func(query, kind, body string, header ...string) *httptest.ResponseRecorder {
		return call(api, "POST", "/v1/records/import"+query, body, append(header, "Content-Type: "+kind)...)
	}
	expect(t, "dry run", send("?dry_run=1", lines, text), 200,
		`{"dry_run":true,"revision":0,"added":1,"changed":0,"deleted":0,"unchanged":0,"ended":0,"warnings":[],"differences":[{"do":"add","record":"ban","name":"user=1","before":null,"after":{"subject":"user=1"}}]}`)
	expect(t, "import", send("", lines, text, "X-Stint-Why: moved here"), 200, `{"dry_run":false,"revision":1,"added":1,...`)
	expect(t, "CSV", send("?mode=replace&kind=ban", "text/csv", "record,address\nban,192.0.2.7\nend,1\n"), 200, `{"dry_run":false,"revision":2,"added":1,"changed":0,"deleted":1,...`)
	expect(t, "cut", send("", lines, text[:40]), 400, `{"error":{"code":"bad_request","message":"line 2: the file ends within a line; ...`)
	expect(t, "stale", send("", lines, text, `If-Match: "1"`), 412, `{"error":{"code":"precondition_failed",...`)
	expect(t, "type", send("", "text/plain", text), 415, `{"error":{"code":"unsupported_media_type",...`)
	expect(t, "mode", send("?mode=add", lines, text), 400, `{"error":{"code":"bad_request","message":"mode: ...`)
	expect(t, "kind", send("?kind=rules", lines, text), 400, `{"error":{"code":"bad_request","message":"kind: \"rules\" is no kind of records; write subject, override, ban, key, rule, plan or grant, or leave it out for all...`)
	expect(t, "no rules here", send("?kind=rule", lines, text), 400, `{"error":{"code":"bad_request","message":"kind: the rules per API of this service are not among its records; see /v1/rules...`)
	expect(t, "a rule", send("", lines, `{"record":"rule","id":"a","url":"/a","time":"day","requests":1}`+"\n"), 400, `{"error":{"code":"bad_request","message":"line 1: a rule in an import of subject, override, ban, key, plan, grant; leave it out: this service has its rules per API from --catalog...`)
	expect(t, "other kind", send("?kind=key", lines, text), 400, `{"error":{"code":"bad_request","message":"line 1: a ban in an import of key; ...`)
	expect(t, "flag", send("?dry_run=yes", lines, text), 400, `{"error":{"code":"bad_request","message":"dry_run: ...`)
	expect(t, "idempotency", send("", lines, text, "Idempotency-Key: 7"), 400, `{"error":{"code":"bad_request","message":"Idempotency-Key: ...`)
	expect(t, "export", call(api, "GET", "/v1/records/export?kind=ban&format=csv", ""), 200, "record,subject,address,network,until,why\nban,,192.0.2.7,,,\nend,1,,,,")
	expect(t, "export all", call(api, "GET", "/v1/records/export", ""), 200, `{"record":"ban","address":"192.0.2.7"}`+"\n"+`{"record":"end","count":1}`)
	expect(t, "no format", call(api, "GET", "/v1/records/export?format=xml", ""), 400, `{"error":{"code":"bad_request","message":"format: ...`)
}

// A change that is too large to share is not a fault of the disk.
func TestTooLarge(t *testing.T) {
	f := FaultOf(&records.Error{Where: "records", Problem: "the change has 5 bytes", Err: records.ErrTooLarge})
	if f == nil || f.Status != http.StatusRequestEntityTooLarge || f.Code != jsonbody.TooLarge {
		t.Errorf("%+v", f)
	}
}

// TestFaultsHideNames checks that the log of faults has the routes of paths, and no names in them.
func TestFaultsHideNames(t *testing.T) {
	api, f, log := open(t)
	testkit.Must(t, f.Close())
	for _, c := range []struct{ method, path, body, route string }{
		{"GET", "/v1/subjects/user=person", "", "/v1/subjects/..."},
		{"PUT", "/v1/subjects/user=person?x=person", `{"plan":"pro"}`, "/v1/subjects/..."},
		{"POST", "/v1/keys", `{"subject":"user=person"}`, "/v1/keys"},
	} {
		log.Reset()
		call(api, c.method, c.path, c.body)
		if strings.Contains(log.String(), "person") || !strings.Contains(log.String(), " path="+c.route+" ") {
			t.Errorf("%s %s is logged with more than its route:\n%s", c.method, c.path, log)
		}
	}
}

// A service without records says so, and a file that fails is no fault of the caller.
func TestOff(t *testing.T) {
	expect(t, "off", call(http.HandlerFunc(Off), "GET", "/v1/bans", ""), 404, `{"error":{"code":"not_found","message":"this service has no records; start it with --records FILE","context":{}}}`)
	api, f, log := open(t)
	testkit.Must(t, f.Close())
	for _, path := range []string{"/v1/bans", "/v1/bans/user=1", "/v1/records", "/v1/audit/verify"} {
		if w := call(api, "GET", path, ""); w.Code != 507 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	expect(t, "put", call(api, "PUT", "/v1/bans", `{"subject":"user=1"}`), 507, `{"error":{"code":"not_saved",...`)
	if !strings.Contains(log.String(), `msg="records request failed" method=PUT`) {
		t.Errorf("%s", log)
	}
}

// An override must fit its rule. One of an unknown rule is written, with a warning.
func TestOverrideFitsRule(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	var asked rule.Numbers
	api := New(f, Options{Override: func(name string, n rule.Numbers) (bool, error) {
		asked = n
		if name != "api/user" {
			return false, nil
		}
		if n.Burst != 0 {
			return true, &rule.NumbersError{Field: "burst", Problem: "not a word of fixed_window", Hint: "leave it out"}
		}
		return true, nil
	}})
	const fits = `{"subject":"user=1","rule":"api/user","requests":7,"per":"1m"}`
	expect(t, "misfit", call(api, "PUT", "/v1/overrides", `{"subject":"user=1","rule":"api/user","burst":7}`), 400,
		`{"error":{"code":"bad_request","message":"burst: rule \"api/user\" cannot have it: not a word of fixed_window; leave it out","context":{"field":"burst"}}}`)
	expect(t, "fits", call(api, "PUT", "/v1/overrides", fits), 201,
		`{"subject":"user=1","rule":"api/user","requests":7,"per":"1m","revision":1,"changed":"T"}`)
	if want := (rule.Numbers{Requests: 7, Per: time.Minute}); asked != want {
		t.Errorf("checked %+v, want %+v", asked, want)
	}
	// An import only warns of both: rules may have changed since the file was written.
	expect(t, "import", call(api, "POST", "/v1/records/import?dry_run=1", `{"record":"override","subject":"user=3","rule":"nobody","burst":1}
{"record":"override","subject":"user=4","rule":"api/user","burst":7}
{"record":"override","subject":"user=5","rule":"api/user","requests":7}
{"record":"end","count":3}
`, "Content-Type: application/jsonl"), 200, `{"dry_run":true,"revision":1,"added":3,"changed":0,"deleted":0,"unchanged":0,"ended":0,"warnings":[`+
		`"override user=3 of nobody: no rule is named \"nobody\" on this node; the override has no effect until there is one",`+
		`"override user=4 of api/user: burst: rule \"api/user\" cannot have it: not a word of fixed_window"],...`)
	expect(t, "unknown rule", call(api, "PUT", "/v1/overrides/user=1/nobody", `{"unlimited":true}`), 201,
		`{"subject":"user=1","rule":"nobody","unlimited":true,"revision":2,"changed":"T","warning":"no rule is named \"nobody\" on this node; the override has no effect until there is one"}`)
	if want := (rule.Numbers{Unlimited: true}); asked != want {
		t.Errorf("checked %+v, want %+v", asked, want)
	}
}
