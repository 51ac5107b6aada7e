package rulefile_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
)

// seeds adds all files that match a pattern to a fuzz target.
func seeds(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		for _, name := range testkit.GoldenInputs(f, filepath.FromSlash(pattern)) {
			f.Add(source(f, name).Data)
		}
	}
}

// checkFaults checks that each fault has a line, a problem and a hint.
func checkFaults(t *testing.T, err error) {
	t.Helper()
	var faults *rule.Errors
	if !errors.As(err, &faults) || len(faults.List) == 0 {
		t.Fatalf("%T %v", err, err)
	}
	for _, one := range faults.List {
		if one.Line < 1 || one.Problem == "" || one.Hint == "" || one.File != "fuzz" {
			t.Errorf("incomplete: %+v", one)
		}
	}
}

// No input makes the reader panic. An accepted input gives a sound table: each rule is found by a
// descriptor of its own and has its own keys.
func FuzzParse(f *testing.F) {
	seeds(f, "../testdata/good/*.yaml", "../testdata/bad/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := rulefile.Parse(rulefile.Source{Name: "fuzz", Data: data})
		if err != nil {
			checkFaults(t, err)
			return
		}
		checkTable(t, table)
		for _, w := range table.Warnings() {
			if w.ID == "" || w.Line < 1 || w.Text == "" || w.Hint == "" {
				t.Errorf("incomplete warning: %+v", w)
			}
		}
		for _, r := range table.Rules() {
			var e []rule.Entry
			for _, l := range r.Path {
				e = append(e, rule.Entry{Key: l.Key, Value: l.Value})
			}
			found := slices.Contains(table.Domain(r.Domain).Match(e), r)
			for n := range e { // unless a pattern comes first
				at := table.Domain(r.Domain).Find(e[:n+1])
				found = found || at != nil && at.Path[n].Wildcard && !r.Path[n].Wildcard
			}
			if !found {
				t.Errorf("%s is not found by %v", r.Name, e)
			}
		}
		again, err := rulefile.Parse(rulefile.Source{Name: "fuzz", Data: data})
		if err != nil || again.String() != table.String() || again.Hash() != table.Hash() {
			t.Errorf("the second reading differs: %v\n%v\n%v", err, table, again)
		}
		for _, d := range table.Domains() {
			if described, err := d.Describe(nil, plainRequest{}, rule.AnyPhase); err != nil && len(described) > 0 {
				t.Errorf("%v beside %v", described, err)
			}
		}
	})
}

// plainRequest is a request with nothing but a method and a path.
type plainRequest struct{}

func (plainRequest) Method() string               { return "GET" }
func (plainRequest) Path() string                 { return "/a/../b" }
func (plainRequest) Query(string) (string, bool)  { return "", false }
func (plainRequest) Header(string) (string, bool) { return "", false }
func (plainRequest) RemoteAddress() netip.Addr    { return netip.Addr{} }
