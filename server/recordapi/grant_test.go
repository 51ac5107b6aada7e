package recordapi

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
)

// A grant is written, read, listed and deleted like an override. One without an ID gets a new one, which is the
// same in a repeat. A fault names its field, and a limit that can have no grants is refused.
func TestGrants(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	asked := ""
	api := New(f, Options{Grant: func(_, limit, plan string) (string, error) {
		asked = limit + " of " + plan
		switch limit {
		case "typo":
			return "no such limit", nil
		case "bucket":
			return "", errors.New("not of this limit")
		}
		return "", nil
	}})
	const until = `"until":"2096-12-31T00:00:00Z"`
	expect(t, "the subject", call(api, "PUT", "/v1/subjects/user=42", `{"kind":"user","plan":"pro"}`), 201, `{"subject":"user=42",...`)
	for i, step := range []struct {
		method, path, body string
		status             int
		want, asked        string
	}{
		{"PUT", "/v1/grants", `{"subject":"user=42","id":"order-7","limit":"api","units":1000,` + until + `}`, 201, `{"subject":"user=42","id":"order-7",` + until + `,"limit":"api","units":1000,"priority":200,"revision":2,"changed":"T"}`, "api of pro"},
		{"PUT", "/v1/grants/user=42/order-7", `{"limit":"api","units":2000,"priority":0,` + until + `,"from":"2026-01-01T00:00:00Z","why":"more"}`, 200, `{"subject":"user=42","id":"order-7",` + until + `,"why":"more","limit":"api","units":2000,"priority":0,"from":"2026-01-01T00:00:00Z","revision":3,"changed":"T"}`, "api of pro"},
		{"PUT", "/v1/grants/user=a%2Fb/order-7", `{"limit":"typo","units":1,` + until + `}`, 201, `{"subject":"user=a/b","id":"order-7",` + until + `,"limit":"typo","units":1,"priority":200,"revision":4,"changed":"T","warning":"no such limit"}`, "typo of "},
		{"GET", "/v1/grants/user=42/order-7", "", 200, `{"subject":"user=42","id":"order-7",...`, ""},
		{"GET", "/v1/grants?subject=user%3D42", "", 200, `{"records":[{"subject":"user=42","id":"order-7",` + until + `,"why":"more","limit":"api","units":2000,"priority":0,"from":"2026-01-01T00:00:00Z","revision":3,"changed":"T"}],"next":null,"revision":4}`, ""},
		{"GET", "/v1/records", "", 200, `{"revision":4,"age_ms":0,"writable":true,"error":"","kinds":{"ban":0,"grant":2,...`, ""},
		{"GET", "/v1/grants/user=42", "", 404, `{"error":{"code":"not_found","message":"no grant has this path; write /v1/grants/SUBJECT/ID, ...`, ""},
		{"GET", "/v1/grants/user=42/order-8", "", 404, `{"error":{"code":"not_found","message":"there is no grant user=42 order-8; see GET /v1/grants for those there are",...`, ""},

		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"bucket","units":1,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"limit: not of this limit; grants need fixed windows ...`, "bucket of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","units":1,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"limit: missing; ...`, " of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api",` + until + `}`, 400, `{"error":{"code":"bad_request","message":"units: 0 units grant nothing; ...`, "api of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":4294967296,` + until + `}`, 400, `{"error":{"code":"bad_request",...`, ""},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":1,"priority":100,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"priority: 100 is the priority of the plan itself; ...`, "api of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":1,"priority":256,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"priority: 256 is above 255; ...`, ""},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":1}`, 400, `{"error":{"code":"bad_request","message":"until: missing; ...`, "api of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":1,"until":"2020-01-01T00:00:00Z"}`, 400, `{"error":{"code":"bad_request","message":"until: 2020-01-01T00:00:00Z is not in the future; ...`, "api of pro"},
		{"PUT", "/v1/grants", `{"subject":"user=42","limit":"api","units":1,` + until + `,"from":"monday"}`, 400, `{"error":{"code":"bad_request","message":"from: \"monday\" is neither a time nor a length of time; ...`, ""},
		{"PUT", "/v1/grants", `{"limit":"api","units":1,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"subject: missing; ...`, "api of "},
		{"PUT", "/v1/grants/user=42/a%2Fb", `{"limit":"api","units":1,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"id: a/b is not an ID; ...`, "api of pro"},
		{"PUT", "/v1/grants/user=42/order-7", `{"id":"order-8","limit":"api","units":1,` + until + `}`, 400, `{"error":{"code":"bad_request","message":"the body names another grant than the path; ...`, ""},
		{"DELETE", "/v1/grants/user=42/order-7", "", 204, "", ""},
		{"DELETE", "/v1/grants/user=42/order-7", "", 404, `{"error":{"code":"not_found","message":"there is no grant user=42 order-7; ...`, ""},
	} {
		asked = ""
		expect(t, fmt.Sprint("step ", i), call(api, step.method, step.path, step.body), step.status, step.want)
		if asked != step.asked {
			t.Errorf("step %d: asked for %q, want %q", i, asked, step.asked)
		}
	}
	made := regexp.MustCompile(`"id":"(g[0-9a-f]{16})"`)
	ids := map[string]bool{}
	for _, header := range []string{"X-Stint-Why: x", "X-Stint-Why: x", "Idempotency-Key: 1", "Idempotency-Key: 1", "Idempotency-Key: 2"} {
		answer := call(api, "PUT", "/v1/grants", `{"subject":"user=9","limit":"api","units":1,`+until+`}`, header)
		id := made.FindStringSubmatch(answer.Body.String())
		if answer.Code/100 != 2 || id == nil || answer.Code == 200 != (ids[id[1]] && strings.Contains(answer.Body.String(), `"repeated":true`)) {
			t.Fatalf("%s: %d %s", header, answer.Code, answer.Body)
		}
		ids[id[1]] = true
	}
	if n, err := f.Count(records.Grants); err != nil || n != 5 || len(ids) != 4 {
		t.Errorf("%d grants, %v, with the IDs %v", n, err, ids)
	}
	expect(t, "audit", call(api, "GET", "/v1/audit?subject=user%3D42&limit=1", ""), 200, `{"entries":[{"number":...`)
	if e, _, err := f.Get(records.ID{Kind: records.Grants, Name: "user=a/b\norder-7"}); err != nil || e.Record.(records.Grant).Until.Before(time.Now()) {
		t.Errorf("%+v, %v", e, err)
	}
}

// An import warns of grants that have no effect.
func TestImportGrants(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	api := New(f, Options{Grant: func(_, limit, _ string) (string, error) { return "no limit " + limit, nil }})
	const text = "record,subject,id,limit,units,priority,from,until,why\ngrant,user=42,order-7,api,1000,5,,2096-12-31T00:00:00Z,=1\nend,1,,,,,,,\n"
	expect(t, "import", call(api, "POST", "/v1/records/import?kind=grant", text, "Content-Type: text/csv"), 200,
		`{"dry_run":false,"revision":1,"added":1,"changed":0,"deleted":0,"unchanged":0,"ended":0,"warnings":["grant user=42 order-7: no limit api"],...`)
	expect(t, "export", call(api, "GET", "/v1/records/export?kind=grant&format=csv", ""), 200,
		"record,subject,until,why,id,limit,units,priority,from\ngrant,user=42,2096-12-31T00:00:00Z,'=1,order-7,api,1000,5,\nend,1,,,,,,,")
}

// A fault that an import has only together names the record, one by itself names the line.
func TestImportTooManyGrants(t *testing.T) {
	api, _, _ := open(t)
	const limits = `,"limit":"api","units":1,"until":"2096-12-31T00:00:00Z"}` + "\n"
	var body strings.Builder
	for i := range 17 {
		fmt.Fprintf(&body, `{"record":"grant","subject":"user=42","id":"g%d"`+limits, i)
	}
	body.WriteString(`{"record":"end","count":17}` + "\n")
	expect(t, "too many", call(api, "POST", "/v1/records/import", body.String(), "Content-Type: application/jsonl"), 400,
		`{"error":{"code":"bad_request","message":"grant user=42 g16: id: the subject has 16 grants already; ...`)
	expect(t, "nothing is imported", call(api, "GET", "/v1/grants", ""), 200, `{"records":[],"next":null,"revision":0}`)
}
