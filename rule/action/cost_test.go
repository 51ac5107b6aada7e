package action_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stint/internal/strictyaml/parser"
	"stint/rule/action"
)

// priced is a request with every attribute that a cost may depend on.
type priced struct {
	full
	method, path string
	values       url.Values
	body         int64
}

func (p *priced) Method() string { return p.method }
func (p *priced) Path() string   { return p.path }

func (p *priced) QueryValues(name string) []string { return p.values[name] }
func (p *priced) BodySize() (int64, bool)          { return p.body, p.body >= 0 }

var (
	_ action.Parameters = (*priced)(nil)
	_ action.Sizer      = (*priced)(nil)
)

func readCost(text string) (*action.Cost, string) {
	doc := parser.Parse([]byte(text))
	c := action.ReadCost(doc.Root(), action.Paths{})
	var faults []string
	for _, f := range doc.Faults() {
		if f.Hint == "" {
			f.Problem += " (without a hint)"
		}
		faults = append(faults, f.Problem)
	}
	return c, strings.Join(faults, "; ")
}

func TestCost(t *testing.T) {
	header := func(values ...string) *priced {
		r := &priced{body: -1}
		r.header = http.Header{"X-Cost": values}
		return r
	}
	query := func(raw string) *priced {
		values, _ := url.ParseQuery(raw)
		return &priced{values: values, body: -1}
	}
	body := func(n int64) *priced { return &priced{body: n} }
	at := func(method, path string) *priced {
		return &priced{method: method, path: path, body: -1}
	}
	for _, tt := range []struct {
		cost    string
		request action.Attributes
		want    string // the cost or the error
	}{
		{"5", header(), "5"},
		{"4294967295", header(), "4294967295"},

		{"{header: X-Cost}", header(), "1"},
		{"{header: x-cost}", header("7"), "7"},
		{"{header: x-cost}", header("10000"), "10000"},
		{"{header: x-cost}", header("007"), "7"},
		{"{header: x-cost, default: 3}", header(), "3"},
		{"{header: x-cost, default: 3}", header("2"), "2"},
		{"{header: x-cost}", header("0"), `header x-cost: "0" is not a whole number from 1 to 10000`},
		{"{header: x-cost, min: 0}", header("0"), "0"},
		{"{header: x-cost, min: 0, default: 0}", header(), "0"},
		{"{header: x-cost, min: 2, default: 2, max: 4}", header("1"), `header x-cost: "1" is not a whole number from 2 to 4`},
		{"{header: x-cost, min: 2, default: 2, max: 4}", header("5"), `header x-cost: "5" is not a whole number from 2 to 4`},
		{"{header: x-cost, max: 4294967295}", header("4294967295"), "4294967295"},
		{"{header: x-cost, max: 4294967295}", header("4294967296"), `header x-cost: "4294967296" is not a whole number from 1 to 4294967295`},
		{"{header: x-cost}", header("-1"), `header x-cost: "-1" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("+1"), `header x-cost: "+1" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("1e9"), `header x-cost: "1e9" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("10001"), `header x-cost: "10001" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("1.0"), `header x-cost: "1.0" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("1_0"), `header x-cost: "1_0" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("abc"), `header x-cost: "abc" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header(""), `header x-cost: "" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("1, 1"), `header x-cost: "1, 1" is not a whole number from 1 to 10000`},
		{"{header: x-cost}", header("1", "1"), `header x-cost: "1" is a second cost of one request`},
		{"{header: x-cost}", header(strings.Repeat("9", 8<<10)), `header x-cost: "` + strings.Repeat("9", 40) + `..." is not a whole number from 1 to 10000`},
		{"{header: x-cost}", &plain{header: http.Header{"X-Cost": {"3"}}}, "3"},

		{"{query: n}", query(""), "1"},
		{"{query: n}", query("n=12&m=3"), "12"},
		{"{query: n}", query("n="), `query parameter n: "" is not a whole number from 1 to 10000`},
		{"{query: n}", query("n=1&n=2"), `query parameter n: "2" is a second cost of one request`},
		{"{query: q, default: 9}", &plain{}, "9"},

		{"{body: 1KiB}", body(0), "1"},
		{"{body: 1KiB, min: 0, default: 5}", body(0), "0"},
		{"{body: 1KiB}", body(1), "1"},
		{"{body: 1KiB}", body(1024), "1"},
		{"{body: 1KiB}", body(1025), "2"},
		{"{body: 1KiB}", body(100 << 20), "102400"},
		{"{body: 1KiB, default: 7}", body(-1), "7"},
		{"{body: 1KiB, default: 7}", &plain{}, "7"},
		{"{body: 100, max: 2}", body(201), `body: "201" bytes cost more than 2`},
		{"{body: 1}", body(1 << 62), `body: "4611686018427387904" bytes cost more than 4294967295`},

		{`{routes: {"GET /v1/export": 50, "/v1/{id}": 2}}`, at("GET", "/v1/export"), "50"},
		{`{routes: {"GET /v1/export": 50, "/v1/{id}": 2}}`, at("HEAD", "/v1//%65xport"), "50"},
		{`{routes: {"GET /v1/export": 50, "/v1/{id}": 2}}`, at("POST", "/v1/export"), "2"},
		{`{routes: {"GET /v1/export": 50}, default: 4}`, at("GET", "/"), "4"},
	} {
		c, faults := readCost(tt.cost)
		if faults != "" {
			t.Errorf("%s: %s", tt.cost, faults)
			continue
		}
		n, err := c.Of(tt.request, action.Paths{}.Read(tt.request.Path()))
		got := fmt.Sprint(n)
		if err != nil {
			var bad *action.CostError
			if got = err.Error(); !errors.As(err, &bad) {
				t.Errorf("%s: the error is a %T", tt.cost, err)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.cost, got, tt.want)
		}
	}
	if n, err := (*action.Cost)(nil).Of(&plain{}, ""); n != 1 || err != nil {
		t.Errorf("no cost: %d, %v", n, err)
	}
}

func TestCostText(t *testing.T) {
	for text, want := range map[string]string{
		"5":                                "5",
		"{header: x-cost, min: 0}":         "header x-cost from 0 to 10000 else 1",
		"{query: n, max: 5}":               "query n from 1 to 5 else 1",
		"{body: 1MiB}":                     "body in 1048576 bytes from 1 to 4294967295 else 1",
		"{routes: {/a: 1, /b: 2}}":         "by 2 routes else 1",
		"{routes: {/a: 1}, default: 4000}": "by 1 routes else 4000",
	} {
		if c, faults := readCost(text); faults != "" || c.String() != want {
			t.Errorf("%s: %v %s, want %s", text, c, faults, want)
		}
	}
}

func TestCostFaults(t *testing.T) {
	for text, want := range map[string]string{
		"0":                                "a cost of 0 counts nothing",
		"-1":                               "-1 is negative",
		"4294967296":                       "4294967296 is too large",
		"x-cost":                           "cost: a text is not a cost",
		"[1]":                              "expected a whole number, found a list",
		"{}":                               "cost without a place in the request",
		"{max: 5}":                         "cost without a place in the request",
		"{number: 5}":                      `unknown word "number" in cost`,
		"{header: a, query: b}":            "cost: query beside header",
		"{header: ''}":                     "an empty text",
		"{header: 'a b'}":                  `header: "a b" is not a valid header name`,
		"{header: a, max: 0}":              "cost: there is not a number from 1 to 0",
		"{header: a, min: 5, max: 4}":      "cost: there is not a number from 5 to 4",
		"{header: a, min: 10001}":          "cost: there is not a number from 10001 to 10000",
		"{header: a, min: 2}":              "cost: the default 1 is not from 2 to 10000",
		"{header: a, default: 10001}":      "cost: the default 10001 is not from 1 to 10000",
		"{header: a, default: 0}":          "cost: the default 0 is not from 1 to 10000",
		"{header: a, max: 4294967296}":     "max: 4294967296 is too large",
		"{header: a, min: x}":              `min: expected a whole number, found the text "x"`,
		"{body: 0}":                        `body: "0" is not a size`,
		"{body: 1KB}":                      `body: "1KB" is not a size`,
		"{body: -1KiB}":                    `body: "-1KiB" is not a size`,
		"{body: 9223372036854775807KiB}":   `body: "9223372036854775807KiB" is not a size`,
		"{body: }":                         "an empty text",
		"{routes: {}}":                     "routes is empty",
		"{routes: {/a: 0}}":                "routes: a cost of 0 for /a counts nothing",
		"{routes: {/a: x}}":                `/a: expected a whole number, found the text "x"`,
		"{routes: {a: 1}}":                 `"a" does not begin with a slash, or a method and a slash`,
		"{routes: {/a: 1}, max: 3}":        "cost: max beside routes",
		"{routes: {/a: 1}, default: 0}":    "a cost of 0 counts nothing",
		"{routes: {/{a}/b: 1, /b/{a}: 1}}": "",
	} {
		_, got := readCost(text)
		if got == "" || want != "" && got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// No request can set a cost that the file does not allow.
func FuzzCost(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "-1", "1e9", " 1", "4294967296", "١"} {
		f.Add(seed, seed)
	}
	c, _ := readCost("{header: x-cost, min: 2, default: 2, max: 77}")
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, values := range [][]string{{first}, {first, second}} {
			r := &priced{}
			r.header = http.Header{"X-Cost": values}
			if n, err := c.Of(r, ""); err == nil && (n < 2 || n > 77 || len(values) > 1) || err != nil && n != 0 {
				t.Errorf("%q: %d, %v", values, n, err)
			}
		}
	})
}
