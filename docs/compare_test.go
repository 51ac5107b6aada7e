//go:build linux

package docs_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// differs says how got differs from what a page prints, "" where it does not, by the rule of
// the package comment.
func differs(printed, got string) string {
	var want any
	if json.Unmarshal([]byte(strings.ReplaceAll(printed, ",...}", "}")), &want) == nil {
		// curl -i prints a head before the object.
		var have any
		if err := json.Unmarshal([]byte(got), &have); err != nil {
			return "no JSON: " + err.Error()
		}
		return differsJSON("", want, have)
	}
	wanted, had := strings.Split(strings.TrimSpace(printed), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	for i, line := range wanted {
		if line == "..." && i == len(wanted)-1 {
			return ""
		}
		if i >= len(had) || !sameLine(line, strings.TrimRight(had[i], "\r")) {
			return fmt.Sprintf("line %d is not %q", i+1, line)
		}
	}
	if len(had) > len(wanted) {
		return fmt.Sprintf("a line more: %q", had[len(wanted)])
	}
	return ""
}

func differsJSON(at string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := have.(map[string]any)
		for name, value := range want {
			if !ok {
				break
			}
			if _, there := fields[name]; !there {
				return at + "." + name + " is not there"
			}
			if d := differsJSON(at+"."+name, value, fields[name]); d != "" {
				return d
			}
		}
		if ok {
			return ""
		}
	case []any:
		list, ok := have.([]any)
		if ok && len(list) == len(want) {
			for i := range want {
				if d := differsJSON(fmt.Sprintf("%s[%d]", at, i), want[i], list[i]); d != "" {
					return d
				}
			}
			return ""
		}
	case float64:
		if n, ok := have.(float64); ok && strings.HasSuffix(at, "_ms") && left(want, n) {
			return ""
		}
	}
	if reflect.DeepEqual(want, have) {
		return ""
	}
	return fmt.Sprintf("%s is %v, and the page says %v", at, have, want)
}

// left says whether a time that the page prints may be this one.
func left(want, have float64) bool { return want == have || 0 < have && have <= want }

var (
	dates = regexp.MustCompile(`\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z|\b1[5-9]\d{8}\b`)
	times = regexp.MustCompile(`(;t=|^Retry-After: |^X-RateLimit-Retry-After: )(\d+)`)
)

// sameLine compares one line of text.
func sameLine(want, have string) bool {
	want, have = dates.ReplaceAllString(want, "DATE"), dates.ReplaceAllString(have, "DATE")
	wanted, had := times.FindAllStringSubmatch(want, -1), times.FindAllStringSubmatch(have, -1)
	if len(wanted) != len(had) {
		return false
	}
	for i := range wanted {
		w, _ := strconv.ParseFloat(wanted[i][2], 64)
		h, _ := strconv.ParseFloat(had[i][2], 64)
		if !left(w, h) {
			return false
		}
	}
	want, have = times.ReplaceAllString(want, "$1"), times.ReplaceAllString(have, "$1")
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(have)
}

// What is compared loosely is still compared.
func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		printed, got string
		same         bool
	}{
		{`{"a":1,...}`, `{"a":1,"b":2}`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":1}`, `{}`, false},
		{`{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, false},
		{`{"a":[]}`, `{"a":[1]}`, false},
		{`{"a_ms":100}`, `{"a_ms":77}`, true},
		{`{"a_ms":100}`, `{"a_ms":101}`, false},
		{`{"a_ms":100}`, `{"a_ms":0}`, false},
		{`{"a_ms":0}`, `{"a_ms":1}`, false},
		{`{"a":1}`, `oh`, false},
		{"HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n", true},
		{"HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden", false},
		{"RateLimit: \"x\";r=1;t=10", "RateLimit: \"x\";r=1;t=9", true},
		{"RateLimit: \"x\";r=1;t=10", "RateLimit: \"x\";r=0;t=10", false},
		{"Retry-After: 10", "Retry-After: 11", false},
		{"Date: Sun, 22 Nov 2026 11:46:36 GMT", "Date: Mon, 23 Nov 2026 00:00:00 GMT", true},
		{"a ... c", "a b c", true},
		{"a ... c", "a b d", false},
		{"a\n...", "a\nb\nc", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
	} {
		if d := differs(c.printed, c.got); (d == "") != c.same {
			t.Errorf("%q printed, %q got: %q", c.printed, c.got, d)
		}
	}
}
