package strictyaml_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
)

// config is the type that the tests read.
type config struct {
	Name  string
	On    bool
	Size  uint64
	Ports []uint64
	Free  any
	Inner *config
}

func read(v strictyaml.Value, c *config) bool {
	return v.Object("a config", strictyaml.Words{
		"name":  func(v strictyaml.Value) { c.Name = v.Text() },
		"on":    func(v strictyaml.Value) { c.On = v.Bool() },
		"mode":  func(v strictyaml.Value) { v.OneOf("fast", "slow") },
		"size":  func(v strictyaml.Value) { c.Size = v.Uint(1000) },
		"free":  func(v strictyaml.Value) { c.Free = v.Any() },
		"inner": func(v strictyaml.Value) { c.Inner = new(config); read(v, c.Inner) },
		"ports": func(v strictyaml.Value) {
			for _, p := range v.OneOrList() {
				c.Ports = append(c.Ports, p.Uint(65535))
			}
		},
	}, func(word string) string {
		if word == "title" {
			return "write name:"
		}
		return ""
	})
}

// faults returns all faults, one a line.
func faults(doc *strictyaml.Document) string {
	var lines []string
	for _, f := range doc.Faults() {
		lines = append(lines, fmt.Sprintf("%d: %s; %s", f.Line, f.Problem, f.Hint))
	}
	return strings.Join(lines, "\n")
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		text string
		want config
	}{
		{"", config{}},
		{"# nothing\n", config{}},
		{"name: x", config{Name: "x"}},
		{"name: 12", config{Name: "12"}},
		{"name: no", config{Name: "no"}},
		{"name: 2026-01-01", config{Name: "2026-01-01"}},
		{"name: ~", config{}},
		{"{on: true, size: 1_000, ports: 80}", config{On: true, Size: 1000, Ports: []uint64{80}}},
		{"size: 0x10\nports: [80, 443]", config{Size: 16, Ports: []uint64{80, 443}}},
		{"inner:\n  name: y\n", config{Inner: &config{Name: "y"}}},
		{"inner:\n", config{Inner: &config{}}},
		{"inner: &a {name: y, size: 1}\nports: []", config{Inner: &config{Name: "y", Size: 1}}},
		{"inner: {<<: {name: y, size: 1}, size: 2}", config{Inner: &config{Name: "y", Size: 2}}},
		{"inner: {<<: [{name: y}, {name: z, size: 1}]}", config{Inner: &config{Name: "y", Size: 1}}},
		{"free: {a: [1, 1.5, true, ~, text, 2026-01-01]}", config{Free: map[string]any{"a": []any{1, 1.5, true, nil, "text", "2026-01-01"}}}},
	} {
		var got config
		doc := parser.Parse([]byte(tt.text))
		known := read(doc.Root(), &got)
		if f := faults(doc); f != "" || !known || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %+v, want %+v\n%s", tt.text, got, tt.want, f)
		}
	}
}

func TestFaults(t *testing.T) {
	const known = "known here are free, inner, mode, name, on, ports, size"
	for _, tt := range []struct{ text, want string }{
		{"namee: x", `1: unknown word "namee" in a config; did you mean "name"?`},
		{"NAME: x", `1: unknown word "NAME" in a config; write "name": words are in lower case`},
		{"title: x", `1: unknown word "title" in a config; write name:`},
		{"other: x", `1: unknown word "other" in a config; ` + known},
		{"name: a\n\nname: b", `3: "name" stands twice, first in line 1; keep one of the two`},
		{"name: [a]", "1: name: expected a text, found a list; write one value"},
		{"on: yes please", `1: on: expected true or false, found the text "yes please"; write true or false, without quotes`},
		{"on: 1", `1: on: expected true or false, found the number "1"; write true or false, without quotes`},
		{"mode: quick", `1: mode: unknown word "quick"; write fast or slow`},
		{"mode: Fast", `1: mode: unknown word "Fast"; did you mean "fast"?`},
		{"size: -1", "1: size: -1 is negative; write a number from 0 to 1000"},
		{"size: 1001", "1: size: 1001 is too large; write a number from 0 to 1000"},
		{"size: 99999999999999999999", "1: size: 99999999999999999999 is too large; write a number from 0 to 1000"},
		{"size: 1.5", `1: size: expected a whole number, found the number "1.5"; write digits only, without quotes, fraction or unit`},
		{"size:", "1: size: expected a whole number, found nothing; write digits only, without quotes, fraction or unit"},
		{"free: .inf", "1: expected a number, found .inf; put it in quotes, or write a finite number"},
		{"- a", "1: expected an object of words and values, found a list; write `word: value`, one a line"},
		{"inner: {<<: 5}", "1: expected an object of words and values, found the number \"5\"; write `word: value`, one a line"},
		{"[a]: b", "1: expected a word, found a list; write `word: value`"},
		{"name: a\n---\nname: b", "2: a second document in one file; remove the line `---`, or put the second document in a file of its own"},
		{"ports: &p [&q [*p]]", ""},
		{"inner: &i {inner: *i}", "1: nested more than 100 deep; nest less; perhaps an alias (*name) stands inside its own anchor (&name)"},
		{"inner: &i {namee: 1}\nfree: *i", `1: unknown word "namee" in a config; did you mean "name"?`},
		{"name: *none", "1: *none refers to nothing; mark what it stands for with &none, above this line; a value that begins with a star needs quotes"},
	} {
		doc := parser.Parse([]byte(tt.text))
		read(doc.Root(), new(config))
		if got := faults(doc); got != tt.want && !(tt.want == "" && got != "") {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
}

// Aliases of aliases cannot make a small file large.
func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	doc := parser.Parse([]byte(b.String()))
	doc.Root().Any()
	if got := faults(doc); !strings.Contains(got, "aliases (*name) repeat more than") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"requests_per_unit", "unit", "per", "burst"}
	for word, want := range map[string]string{
		"unti": "unit", "Unit": "unit", "requestsPerUnit": "requests_per_unit", "requests-per-unit": "requests_per_unit",
		"request_per_unit": "requests_per_unit", "brust": "burst", "pre": "per", "algorithm": "", "x": "", "": "",
		strings.Repeat("unit", 1000): "",
	} {
		if got := strictyaml.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// The leniencies of a loose document, and the resulting values.
func TestLoose(t *testing.T) {
	for _, tt := range []struct {
		text string
		want config
		note string // "": none
	}{
		{"name: ~", config{Name: "~"}, ""},
		{"name:", config{}, ""},
		{"on: yes", config{On: true}, "1: on: yes stands for true"},
		{"on: N", config{}, "1: on: N stands for false"},
		{"on:", config{}, "1: on: nothing stands for false"},
		{"name: a\nname: b", config{Name: "b"}, `2: "name" stands twice, first in line 1; the second counts`},
		{"ports: [1, 2]\nports: [3]", config{Ports: []uint64{3}}, `2: "ports" stands twice, first in line 1; the second counts`},
		{"inner: {name: x}\ninner: {size: 2}", config{Inner: &config{Name: "x", Size: 2}}, `2: "inner" stands twice, first in line 1; the two are joined`},
		{"spare: {a: [b]}\nname: a", config{Name: "a"}, `1: "spare" means nothing in a config`},
		{"name: a\n---\nname: b", config{Name: "a"}, "2: a second document in one file is not read"},
	} {
		var got config
		doc := parser.ParseLoose([]byte(tt.text), "spare")
		known := read(doc.Root(), &got)
		f, notes := faults(doc), ""
		for _, n := range doc.Notes() {
			notes += fmt.Sprintf("%d: %s", n.Line, n.Problem)
		}
		if f != "" || !known || !reflect.DeepEqual(got, tt.want) || notes != tt.note {
			t.Errorf("%q: %+v, want %+v\n%s\nnotes %q, want %q", tt.text, got, tt.want, f, notes, tt.note)
		}
	}
	for _, text := range []string{`on: "yes"`, "on: 1", "on: !!str yes", "size: x", "other: 1", strings.Repeat("[", 1100)} {
		doc := parser.ParseLoose([]byte(text), "spare")
		read(doc.Root(), new(config))
		doc.Root().Any()
		if faults(doc) == "" {
			t.Errorf("%q is let pass", text)
		}
	}
}

// Numbers that begin with a zero are read as octal, as YAML does, and noted if their decimal value
// differs.
func TestOctals(t *testing.T) {
	for text, want := range map[string]string{
		"size: 010":                        "1: size: 010 is 8: YAML reads a number that begins with 0 by base eight; write 10, or 8 if eight is meant as the base",
		"size: +0_17":                      "1: size: +0_17 is 15: YAML reads a number that begins with 0 by base eight; write 17, or 15 if eight is meant as the base",
		"name: 010":                        "",
		"size: 07":                         "",
		"size: 0":                          "",
		"size: 00":                         "",
		"size: 089":                        "",
		"size: 0x10":                       "",
		"size: 0o10":                       "",
		"size: 8":                          "",
		"inner: &a {size: 010}\nfree: 010": "1: size: 010 is 8: YAML reads a number that begins with 0 by base eight; write 10, or 8 if eight is meant as the base",
		"ports: [&a 010, *a]":              "1: 010 is 8: YAML reads a number that begins with 0 by base eight; write 10, or 8 if eight is meant as the base",
	} {
		doc := parser.Parse([]byte(text))
		var c config
		read(doc.Root(), &c)
		var lines []string
		for _, f := range doc.Octals() {
			lines = append(lines, fmt.Sprintf("%d: %s; %s", f.Line, f.Problem, f.Hint))
		}
		if got := strings.Join(lines, "\n"); got != want || len(doc.Faults()) > 0 {
			t.Errorf("%s: noted %q, want %q; faults %s", text, got, want, faults(doc))
		}
		doc.RefuseOctals()
		if got := faults(doc); got != want {
			t.Errorf("%s: refused %q, want %q", text, got, want)
		}
	}
}
