package denial

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/strictyaml/parser"
)

// read compiles a denial and returns it with its faults.
func read(text string) (*Denial, string) {
	doc := parser.Parse([]byte(text))
	d := Read(doc.Root())
	var faults []string
	for _, f := range doc.Faults() {
		if f.Hint == "" {
			f.Problem += " (without a hint)"
		}
		faults = append(faults, f.Problem)
	}
	return d, strings.Join(faults, "; ")
}

var some = Numbers{
	Rule: `api/"user"</b>`, Limit: 100, Remaining: 3, RetryAfter: 1001 * time.Millisecond, ResetAfter: time.Minute,
	Renewal: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
}

func TestBody(t *testing.T) {
	always := Numbers{Rule: "r", RetryAfter: Never, ResetAfter: Never}
	for _, tt := range []struct {
		name, text, want string
		numbers          Numbers
	}{
		{
			"all numbers of JSON", `json: '{"rule":"{{.Rule}}","n":[{{.Limit}},{{.Remaining}},{{.RetryAfter}},{{.ResetAfter}}],"at":"{{.Renewal}}"}'`,
			`{"rule":"api/\"user\"\u003c/b\u003e","n":[100,3,2,60],"at":"2026-01-02T03:04:05Z"}`, some,
		},
		{"never in JSON", `json: '{"wait":{{.RetryAfter}},"at":"{{.Renewal}}","never":{{.Never}}}'`, `{"wait":null,"at":"","never":true}`, always},
		{"if in JSON", `json: '{"text":"{{if .Never}}no{{else if gt .RetryAfter 1}}in {{.RetryAfter}} s{{else}}soon{{end}}"}'`, `{"text":"in 2 s"}`, some},
		{"a pipeline is escaped at its end", `json: '["{{or .Rule 1}}{{if and (eq .Limit 100) (not .Never)}}{{"\""}}{{end}}"]'`, `["api/\"user\"\u003c/b\u003e\""]`, some},
		{
			"HTML is escaped", `html: '<p title="{{.Rule}}">{{.Rule}} {{.RetryAfter}}</p>'`,
			`<p title="api/&#34;user&#34;&lt;/b&gt;">api/&#34;user&#34;&lt;/b&gt; 2</p>`, some,
		},
		{
			"a script is escaped", `html: '<script>f({{.Rule}},{{.RetryAfter}})</script>'`,
			`<script>f("api/\"user\"\u003c/b\u003e", 2 )</script>`, some,
		},
		{"never in HTML", `html: '{{.RetryAfter}} <script>f({{.ResetAfter}})</script>'`, `never <script>f( null )</script>`, always},
		{"only a status", `status: 503`, ``, some},
	} {
		d, faults := read(tt.text)
		if faults != "" {
			t.Errorf("%s: %s", tt.name, faults)
			continue
		}
		got, err := d.AppendBody([]byte("before "), tt.numbers)
		if err != nil || string(got) != "before "+tt.want || d.HasBody() != (tt.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	d, faults := read("status: 503\nheaders: {X-Reason: quota, retry: ' later '}\nhtml: |\n  <p>\n")
	if faults != "" || d.Status != 503 || d.ContentType != "text/html; charset=utf-8" ||
		!slices.Equal(d.Headers, []Header{{"x-reason", "quota"}, {"retry", "later"}}) {
		t.Errorf("%+v %s", d, faults)
	}
	if got := d.String(); got != `503 x-reason: "quota" retry: "later" with 4 bytes of text/html` {
		t.Error(got)
	}
	if d, faults := read(`json: "{}"`); faults != "" || d.Status != 429 || d.ContentType != "application/json" {
		t.Errorf("%+v %s", d, faults)
	}
}

func TestFaults(t *testing.T) {
	long := strings.Repeat("x", mostBody+1)
	for text, want := range map[string]string{
		"":                                   `denial is empty`,
		"{}":                                 `denial is empty`,
		"503":                                `expected an object of words and values, found the number "503"`,
		"body: x":                            `unknown word "body" in denial`,
		"status: 399":                        `status: 399 does not refuse a request`,
		"status: 0":                          `status: 0 does not refuse a request`,
		"status: 600":                        `status: 600 is too large`,
		"status: '503'":                      `status: expected a whole number, found the text "503"`,
		"{json: '{}', html: x}":              `json and html both set the body`,
		"headers: {}":                        `headers is empty`,
		"headers: {'a b': c}":                `headers: "a b" is not a valid header name`,
		"headers: {'a:': c}":                 `headers: "a:" is not a valid header name`,
		`headers: {a: "b\r\nSet-Cookie: c"}`: `headers: the value of a has characters that are invalid in a header`,
		"headers: {a: ä}":                    `headers: the value of a has characters that are invalid in a header`,
		"headers: {a: b, A: c}":              `headers: A is set twice`,
		"headers: {X-RateLimit-Limit: 1}":    `headers: X-RateLimit-Limit is one of the headers with numbers`,
		"headers: {retry-after: 1}":          `headers: retry-after is one of the headers with numbers`,
		"headers: {Content-Length: 1}":       `headers: Content-Length cannot be set here`,
		"headers: {Transfer-Encoding: x}":    `headers: Transfer-Encoding cannot be set here`,
		"headers: {Connection: close}":       `headers: Connection cannot be set here`,
		"headers: {Content-Type: a/b}":       `headers: Content-Type cannot be set here`,
		"json: ''":                           `an empty text`,
		"html: " + long:                      `html: 65537 bytes`,
		"json: '{'":                          `json: the body is not valid JSON: it ends too early`,
		"json: '{} {}'":                      `json: the body is not valid JSON: more follows after its end`,
		"json: 'no'":                         `json: the body is not valid JSON: invalid character 'o' in literal null (expecting 'u')`,
		"json: '{{.Rule}}'":                  `json: the body is not valid JSON: invalid character 'a' looking for beginning of value`,
		"json: '{\"a\":{{.Renewal}}}'":       `json: the body is not valid JSON: invalid character '-' after object key:value pair`,
		"json: '[{{if .Never}}x{{end}}]'":    `json: the body is not valid JSON: invalid character 'x' looking for beginning of value`,
		"json: '{{.Rul}}'":                   `json: it contains .Rul, which a denial does not allow`,
		"json: '{{.Rule.Name}}'":             `json: it contains .Rule.Name, which a denial does not allow`,
		"json: '{{.Rule'":                    `json: 1: unclosed action`,
		"json: '{{nofunc .Rule}}'":           `json: 1: function "nofunc" not defined`,
		"json: '{{printf \"%9d\" 1}}'":       `json: it contains the function printf, which a denial does not allow`,
		"html: '{{range .Limit}}{{end}}'":    `html: it contains {{range .Limit}}, which a denial does not allow`,
		"html: '{{with .Rule}}{{end}}'":      `html: it contains {{with .Rule}}, which a denial does not allow`,
		"html: '{{$x := 1}}'":                `html: it contains $x := 1, which a denial does not allow`,
		"html: '{{.}}'":                      `html: it contains ., which a denial does not allow`,
		"html: '{{define \"a\"}}{{end}}'":    `html: it contains {{define}} and {{block}}, which a denial does not allow`,
		"html: '<a href={{.Rule}}'":          `html: ends in a non-text context: {stateURL delimSpaceOrTagEnd urlPartNone jsCtxRegexp [] attrNone elementNone <nil>}`,
		"html: '{{lt .Rule 1}}'":             `html: 1:2: executing "html" at <lt .Rule 1>: error calling lt: incompatible types for comparison: string and int`,
	} {
		if _, got := read(text); got != want {
			t.Errorf("%.40s:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// A template that fails only later, with other numbers, returns an error and no broken body.
func TestBodyThatBreaksLater(t *testing.T) {
	for _, text := range []string{`json: '[{{if eq .Limit 77}}x{{end}}]'`, `json: '[{{if eq .Limit 77}}{{lt .Rule 1}}{{end}}]'`} {
		d, faults := read(text)
		if faults != "" {
			t.Fatal(faults)
		}
		if got, err := d.AppendBody([]byte("a"), Numbers{Limit: 77}); err == nil || string(got) != "a" {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// For any name of a rule, an accepted body is valid JSON and contains the name.
func FuzzJSON(f *testing.F) {
	f.Add(`{"rule":"{{.Rule}}"}`, `a"b\`)
	f.Add(`["{{if .Never}}{{.Rule}}{{end}}"]`, "\xff\u2028</script>")
	f.Add(`{"a":{{.Limit}}{{.Remaining}}}`, "")
	d, _ := read(`json: '["{{.Rule}}"]'`)
	f.Fuzz(func(t *testing.T, text, name string) {
		body, err := d.AppendBody(nil, Numbers{Rule: name})
		var said []string
		if err != nil || json.Unmarshal(body, &said) != nil || len(said) != 1 || said[0] != strings.ToValidUTF8(name, "\ufffd") && strings.ToValidUTF8(name, "") == name {
			t.Fatalf("%q: %s, %v", name, body, err)
		}
		doc, faults := read(fmt.Sprintf("json: %s", must(json.Marshal(text))))
		if faults != "" {
			return
		}
		if body, err := doc.AppendBody(nil, Numbers{Rule: name, Limit: 1}); err == nil && !json.Valid(body) {
			t.Errorf("%q with %q: %s", text, name, body)
		}
	})
}

func must(b []byte, _ error) []byte { return b }

func BenchmarkAppendBody(b *testing.B) {
	for name, text := range map[string]string{"json": `json: '{"rule":"{{.Rule}}","wait":{{.RetryAfter}}}'`, "html": `html: '<p>{{.Rule}} {{.RetryAfter}}</p>'`} {
		d, _ := read(text)
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = d.AppendBody(dst[:0], some)
			}
		})
	}
}
