package book

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"stint/rule"
	"stint/rule/catalog"
)

// readText returns the rules of a text, and its faults with one in each line.
func readText(format Format, text string) (rules []catalog.Rule, faults string) {
	for r, err := range ReadRules("f", format, strings.NewReader(text)) {
		if err != nil {
			return rules, showFaults(err)
		}
		rules = append(rules, r)
	}
	return rules, ""
}

// showFaults formats faults as LINE: PROBLEM; HINT.
func showFaults(err error) string {
	all, ok := errors.AsType[*rule.Errors](err)
	if !ok {
		return err.Error()
	}
	var lines []string
	for _, e := range all.List {
		lines = append(lines, fmt.Sprintf("%d: %s; %s", e.Line, e.Problem, e.Hint))
	}
	return strings.Join(lines, "\n")
}

var (
	seven = catalog.Rule{ID: "7", UID: "all", URL: "/v1/orders/{id}", Time: "minute", Requests: 5}
	eight = catalog.Rule{
		ID: "8", UID: "*", URL: "GET /v1/items/", Time: "10s", Requests: 100,
		Algorithm: "token_bucket", Burst: 20, Domain: "shop",
	}
)

func TestRead(t *testing.T) {
	both := []catalog.Rule{seven, eight}
	for _, tt := range []struct {
		name   string
		format Format
		text   string
		want   []catalog.Rule
	}{
		{"nothing", CSV, "\n", nil},
		{"comments alone", CSV, "# none\n\n#\n", nil},
		{"columns in their order", CSV, "7,all,/v1/orders/{id},minute,5\n8,*,GET /v1/items/,10s,100,token_bucket,20,shop\n", both},
		{"all columns", CSV, "7,all,/v1/orders/{id},minute,5,,,,\n8,*,GET /v1/items/,10s,100,token_bucket,20,shop,\n", both},
		{"spaces, CRLF, a mark, no end", CSV, "\ufeff7, all , /v1/orders/{id},minute,5\r\n\r\n8,*,GET /v1/items/,10s, 100,token_bucket,20,shop", both},
		{"quotes", CSV, `"7","all","/v1/orders/{id}","minute","5"` + "\n8, \"*\",GET /v1/items/,10s,100,token_bucket,20,shop", both},
		{"a header", CSV, "id,uid,url,time,requests\n7,all,/v1/orders/{id},minute,5\n", []catalog.Rule{seven}},
		{
			"a header in its own order", CSV,
			"# ours\nDomain,URL,Requests,Time,UID,ID,burst,algorithm\n,/v1/orders/{id},5,minute,all,7,,\nshop,GET /v1/items/,100,10s,*,8,20,token_bucket", both,
		},
		{"a header without uid", CSV, "id,url,time,requests\n7,/x,minute,5\n", []catalog.Rule{{ID: "7", URL: "/x", Time: "minute", Requests: 5}}},
		{"no header", CSV, "id,all,/x,minute,5\n", []catalog.Rule{{ID: "id", UID: "all", URL: "/x", Time: "minute", Requests: 5}}},
		{"unlimited", CSV, "a,all,/x,,,unlimited\n", []catalog.Rule{{ID: "a", UID: "all", URL: "/x", Algorithm: "unlimited"}}},
		{"a comma and quotes within", CSV, "a,\"x,\"\"y\"\"\",/x,minute,5\n", []catalog.Rule{{ID: "a", UID: `x,"y"`, URL: "/x", Time: "minute", Requests: 5}}},
		{"a quoted #", CSV, "\"#a\",all,/x,minute,5\n", []catalog.Rule{{ID: "#a", UID: "all", URL: "/x", Time: "minute", Requests: 5}}},

		{"nothing", JSONLines, "\n\n", nil},
		{
			"lines", JSONLines,
			`{"id":"7","uid":"all","url":"/v1/orders/{id}","time":"minute","requests":5}` + "\r\n\n" +
				` { "requests" : 1.0e2, "burst":20 ,"algorithm":"token_bucket", "domain":"shop","policy":"","time":"10s","url":"GET /v1/items/","uid":"*","id":8}`, both,
		},
		{
			"escapes", JSONLines, `{"id":"\u00e4\"\\\/","url":"/x\ud83d\ude00","time":"minute","requests":0}`,
			[]catalog.Rule{{ID: "\u00e4\"\\/", URL: "/x\U0001f600", Time: "minute"}},
		},
	} {
		t.Run(fmt.Sprint(tt.format, " ", tt.name), func(t *testing.T) {
			got, faults := readText(tt.format, tt.text)
			if faults != "" || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("read %+v %s\nwant %+v", got, faults, tt.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	const good = "7,all,/x,minute,5\n"
	const line = `{"id":"7","url":"/x","time":"minute","requests":5}`
	for _, tt := range []struct {
		format Format
		text   string
		want   string
	}{
		{CSV, "", "0: the file is empty; write an empty line for a file without rules"},
		{JSONLines, "", "0: the file is empty; write an empty line for a file without rules"},
		{CSV, "7,all,/x,minute\n8,all,/x,minute,5,a,1,d,p,more\n", "1: 4 values instead of 5 to 9; write id,uid,url,time,requests,algorithm,burst,domain,policy; a value that holds a comma needs double quotes\n" +
			"2: 10 values instead of 5 to 9; write id,uid,url,time,requests,algorithm,burst,domain,policy; a value that holds a comma needs double quotes"},
		{CSV, "7;all;/x;minute;5\n", "1: 1 values instead of 5 to 9; separate the values with commas, not with semicolons or tabs"},
		{CSV, "7,all,/x,minute,\n", "1: requests: missing; write how many may pass, digits only; 0 denies every request"},
		{CSV, "7,all,/x,minute,-5\n", `1: requests: "-5" is not a whole number; write digits only, without sign, fraction, unit or commas between them`},
		{CSV, "7,all,/x,minute,5,,1e3\n", `1: burst: "1e3" is not a whole number; write digits only, without sign, fraction, unit or commas between them`},
		{CSV, "7,all,/x,minute,99999999999999999999\n", `1: requests: "99999999999999999999" is too large; write a number below 4294967296`},
		{CSV, good + "# same\n" + good, `3: the rule "7" stands twice, first in f:1; give each rule an id of its own`},
		{CSV, "7,al\"l,/x,minute,5\n" + good, `1: a double quote inside a value that does not begin with one; write the value in double quotes, and each of its own twice: "a ""b"""`},
		{CSV, good + "8,\"all,/x,minute,5\n9,all,/x,minute,5\n", `2: a quoted value that does not end, or goes on after its closing quote; close it before the comma, and write each of its own double quotes twice: "a ""b"""`},
		{CSV, "id,uid,url,time,request\n1\n2\n", "1: unknown column \"request\"; is requests meant? Known are id, uid, url, time, requests, algorithm, burst, domain, policy\n" +
			"1: no column requests; a header names at least id, url, time, requests"},
		{CSV, "id,ID,url,time,requests\n1\n2\n", "1: the column id is set twice; keep one of the two"},
		{CSV, "7,\xff,/x,minute,5\n", "1: uid: not UTF-8; save the file as UTF-8"},
		{CSV, "\xff\xfe7\x00", "1: UTF-16 text; save the file as UTF-8"},
		{CSV, "\x1f\x8b\x08", "0: a compressed file; unpack it first, with gunzip"},

		{JSONLines, `[` + line + `]`, `1: not a JSON object; write {"id": "7", "uid": "all", "url": "/v1/orders/{id}", "time": "minute", "requests": 5}`},
		{JSONLines, line + "\n" + line, `2: the rule "7" stands twice, first in f:1; give each rule an id of its own`},
		{JSONLines, line + line, "1: something follows the object; write one object in each line and nothing after it"},
		{JSONLines, `{"id":"7"`, "1: the object ends before it is whole, expected a comma or }; write one whole object in each line"},
		{JSONLines, `{"id":"7",}`, `1: expected a name in double quotes, found "}"; write one JSON object in each line`},
		{JSONLines, `{"id" "7"}`, `1: expected a colon after id, found "\"7\"}"; write one JSON object in each line`},
		{JSONLines, `{"id":"7","url":"/x","time":"minute"}`, "1: requests: missing; write how many may pass, digits only; 0 denies every request"},
		{JSONLines, `{"id":"7","requests":5}`, "1: no url; a rule has at least id, url, time, requests"},
		{CSV, "7,all,/x,never,5\n", `1: time: "never" is not a valid time: no duration; write sec, minute, hour, day, or a length such as 15m`},
		{JSONLines, `{"id":"7","id":"7"}`, "1: id is set twice; keep one of the two"},
		{JSONLines, `{"Id":"7"}`, `1: unknown field "Id"; is id meant? Known are id, uid, url, time, requests, algorithm, burst, domain, policy`},
		{JSONLines, `{"requests":"5"}`, "1: requests: a text instead of a number; write it without quotes"},
		{JSONLines, `{"requests":5.5}`, `1: requests: "5.5" is not a whole number; write digits only, without sign, fraction, unit or commas between them`},
		{JSONLines, `{"requests":05}`, `1: requests: "05" begins with a zero; write the number without it`},
		{JSONLines, `{"requests":}`, `1: requests: expected a number, found "}"; write one JSON object in each line`},
		{JSONLines, `{"uid":5}`, `1: uid: expected a text in double quotes, found "5}"; write one JSON object in each line`},
		{JSONLines, `{"url":null}`, `1: url: expected a text in double quotes, found "null}"; write one JSON object in each line`},
		{JSONLines, `{"id":"\ud800"}`, `1: id: expected a text in double quotes, found "\"\\ud800\"}"; write one JSON object in each line`},
		{JSONLines, "{\"id\":\"\xff\"}", "1: not UTF-8; save the file as UTF-8"},
		{JSONLines, `{"id":"` + strings.Repeat("x", maxLine) + "\"}\n" + line, "1: a line of more than 65536 bytes; write one rule, an object, in each line"},
	} {
		if _, faults := readText(tt.format, tt.text); faults != tt.want {
			t.Errorf("%.60q:\n%s\nwant\n%s", tt.text, faults, tt.want)
		}
	}
}

// The first faults are reported, the others only counted.
func TestManyFaults(t *testing.T) {
	_, faults := readText(CSV, strings.Repeat("x\n", 1000))
	if lines := strings.Split(faults, "\n"); len(lines) != MaxFaults+1 || lines[MaxFaults] != "0: and 980 more faults; correct the listed faults and try again" {
		t.Errorf("%d lines: %s", len(lines), lines[len(lines)-1])
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows, lines := put("a.csv", "7,all,/x,minute,5\n"), put("b.jsonl", `{"id":"8","url":"/x","time":"minute","requests":5}`)
	ids := func(names ...string) (got, faults string) {
		for r, err := range ReadFiles(names...) {
			if err != nil {
				return got, strings.ReplaceAll(err.Error(), dir+"/", "")
			}
			got += r.ID + " "
		}
		return got, ""
	}
	for _, tt := range []struct {
		names        []string
		want, faults string
	}{
		{nil, "", ""},
		{[]string{rows, lines}, "7 8 ", ""},
		{[]string{rows, lines, put("c.csv", "1,all,/x,minute\n8,all,/x,minute,5\n")}, "7 8 ", "c.csv:1: 4 values instead of 5 to 9\n" +
			"  hint: write id,uid,url,time,requests,algorithm,burst,domain,policy; a value that holds a comma needs double quotes\n" +
			"c.csv:2: the rule \"8\" stands twice, first in b.jsonl:1\n  hint: give each rule an id of its own"},
		{[]string{put("rules.txt", "")}, "", "rules.txt: not known how to read this file\n  hint: its name must end in .csv, .jsonl, or .yaml, .yml or .json for the files of ratelimiter4j"},
		{
			[]string{filepath.Join(dir, "no.csv"), rows},
			"",
			"no.csv: cannot read it: no such file or directory\n  hint: check the path and its permissions",
		},
	} {
		if got, faults := ids(tt.names...); got != tt.want || faults != tt.faults {
			t.Errorf("%q: %q %q, want %q %q", tt.names, got, faults, tt.want, tt.faults)
		}
	}
}

// Explain returns the faults of each rule, or the place of a rule that conflicts with another one.
func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"1,all,/x,minute,5\n1,all,/y,minute,5\n":                     `2: the rule "1" stands twice, first in FILE:1; give each rule an id of its own`,
		"1,all,/x,blink,5\n2,all,/y,minute,5\n3,all,/y,minute\n":     "1: time: \"blink\" is not a valid time: no duration; write sec, minute, hour, day, or a length such as 15m\n3: 4 values instead of 5 to 9; write id,uid,url,time,requests,algorithm,burst,domain,policy; a value that holds a comma needs double quotes",
		"1,all,/x,minute,5\n# the same\n2,all,/x,60s,6\n3,,/z,s,1\n": "3: rule 2: /x for uid \"all\" per 60s is already limited by rule 1: /x for uid \"all\" per minute; delete one of the two, or give it a different url, uid or time",
	} {
		file := filepath.Join(t.TempDir(), "rules.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := catalog.New(catalog.Options{}).Replace(ReadFiles(file))
		refused, ok := errors.AsType[*catalog.Error](err)
		if !ok {
			t.Errorf("%q: error %v", text, err)
			continue
		}
		err = Explain(refused, file)
		if got := strings.ReplaceAll(showFaults(err), file, "FILE"); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// An error of the reader is returned unchanged, and nothing is yielded after it.
func TestReaderFails(t *testing.T) {
	for _, format := range []Format{CSV, JSONLines, RateLimiter4j} {
		wrong := errors.New("cut")
		var got error
		for _, err := range ReadRules("f", format, iotest.ErrReader(wrong)) {
			got = err
		}
		if !errors.Is(got, wrong) {
			t.Errorf("%v: error %v", format, got)
		}
	}
}

// A caller that ends the iteration gets no more rules.
func TestStop(t *testing.T) {
	n := 0
	for _, err := range ReadRules("f", CSV, strings.NewReader("1,all,/x,minute,5\n2,all,/x,minute,5\n3,x\n")) {
		if n++; err != nil {
			t.Error(err)
		}
		break
	}
	if n != 1 {
		t.Errorf("%d rules", n)
	}
}

func TestRateLimiter4j(t *testing.T) {
	const file = `
configs:
  - appId: app-1
    limits:
      - {api: /v1/user, limit: 50}
      - {api: "/v1/orders/{id}/", limit: 5, unit: 60}
      - {api: "/v1/files/{name:[a-z]+}/x/{name}", limit: 0, unit: minute}
  - appId: all
    limits:
      - {api: /, limit: 9, unit: 1h30m}
  - appId: 12
    limits:
`
	want := []catalog.Rule{
		{ID: "app-1:/v1/user", UID: "app-1", URL: "/v1/user{/...}", Time: "1s", Requests: 50},
		{ID: "app-1:/v1/orders/{id}/", UID: "app-1", URL: "/v1/orders/{id:[0-9]+}{/...}", Time: "60s", Requests: 5},
		{ID: "app-1:/v1/files/{name:[a-z]+}/x/{name}", UID: "app-1", URL: "/v1/files/{name:[a-z]+}/x/{name5:[0-9]+}{/...}", Time: "minute"},
		{ID: "all:/", UID: "user:all", URL: "/", Time: "1h30m", Requests: 9},
	}
	got, faults := readText(RateLimiter4j, file)
	if faults != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v %s\nwant %+v", got, faults, want)
	}
	got, faults = readText(RateLimiter4j, `{"configs": [{"appId": "app-1", "limits": [{"api": "/v1/user", "limit": 50, "unit": 1}]}]}`)
	if faults != "" || !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("read %+v %s\nwant %+v", got, faults, want[:1])
	}
	for text, want := range map[string]string{
		"":                      "1: no configs; write configs: and below it - appId: NAME",
		"configs: [":            "1: not YAML: did not find expected node content; check the indentation, the quotes and the brackets from this line on",
		"config: []":            `1: unknown word "config" in a file of ratelimiter4j; did you mean "configs"?`,
		"configs:\n- limits: ":  "2: no appId; write the application of these limits, such as appId: app-1",
		"configs:\n- appId: ''": "2: an empty text; write a name, or leave the word out",
		"configs:\n- appId: a\n  limits:\n  - {limit: 5}\n  - {api: /x}\n  - {api: x, limit: 1}\n  - {api: /x, limit: -1}\n  - {api: /x, limit: 1, unit: 0}": "4: no api; write the path that is limited, such as api: /v1/user\n" +
			"5: no limit; write how many requests may pass, such as limit: 50\n" +
			"6: api: \"x\" does not begin with a slash; write the path alone, such as /v1/user\n" +
			"7: limit: -1 is negative; write a number from 0 to 4294967295\n" +
			"8: unit: \"0\" is not a valid time; write a whole number of seconds, or a time such as minute or 10s",
		"configs:\n- appId: a\n  limits:\n  - {api: /x, limit: 5}\n  - {api: /x, limit: 6}": `5: the rule "a:/x" stands twice, first in f:4; give each rule an id of its own`,
		"configs:\n- appId: a\n  limits:\n  - {api: /x, limit: 010, unit: 060}": "4: limit: 010 is 8: YAML reads a number that begins with 0 by base eight; write 10, or 8 if eight is meant as the base\n" +
			"4: unit: 060 is 48: YAML reads a number that begins with 0 by base eight; write 60, or 48 if eight is meant as the base",
		"configs:\n- appId: a\n  limits:\n  - {api: /x, limit: 5, unit: TimeUnit.SECOND}": `4: time: "TimeUnit.SECOND" is not a valid time: no duration; write sec, minute, hour, day, or a length such as 15m`,
	} {
		if _, faults := readText(RateLimiter4j, text); faults != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, faults, want)
		}
	}
}

// A file that is written while it is read is refused, because the reader may have seen half of the
// change. A file that is replaced meanwhile is accepted: the old file was read completely.
func TestFilesChangedMeanwhile(t *testing.T) {
	const row = "id,uid,url,time,requests\n1,u,/a,1m,5\n2,u,/b,1m,5\n"
	for _, test := range []struct {
		name   string
		change func(name string) error
		want   string
	}{
		{"nobody", func(string) error { return nil }, ""},
		{"written over", func(name string) error { return os.WriteFile(name, []byte(row+"3,u,/c,1m,5\n"), 0o644) }, "0: it changed while it was read; write it under another name"},
		{"replaced", func(name string) error {
			if err := os.WriteFile(name+".new", []byte(row), 0o644); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "rules.csv")
			if err := os.WriteFile(name, []byte(row), 0o644); err != nil {
				t.Fatal(err)
			}
			got, changed := "", false
			for _, err := range ReadFiles(name) {
				switch {
				case err != nil:
					got = showFaults(err)
				case !changed:
					changed = true
					if err := test.change(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
