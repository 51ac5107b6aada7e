package rulefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
)

// source returns a file under its base name.
func source(t testing.TB, name string) rulefile.Source {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return rulefile.Source{Name: filepath.Base(name), Data: data}
}

// For each fault there is a file and the message that it must give.
func TestBadFiles(t *testing.T) {
	for _, name := range testkit.GoldenInputs(t, "../testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			table, err := rulefile.Parse(source(t, name))
			if err == nil || table != nil {
				t.Fatalf("accepted:\n%v", table)
			}
			testkit.CheckGolden(t, strings.TrimSuffix(name, ".yaml")+".want", err.Error()+"\n")
			var faults *rule.Errors
			if !errors.As(err, &faults) {
				t.Fatalf("the error is a %T", err)
			}
			for _, f := range faults.List {
				if f.File == "" || f.Line == 0 || f.Problem == "" || f.Hint == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
		})
	}
}

// For each valid file the table and its warnings are as recorded.
func TestGoodFiles(t *testing.T) {
	for _, name := range testkit.GoldenInputs(t, "../testdata/good/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			table, err := rulefile.Parse(source(t, name))
			if err != nil {
				t.Fatal(err)
			}
			text := table.String()
			for _, w := range table.Warnings() {
				text += w.String() + "\n"
				if w.Hint == "" || w.Line == 0 {
					t.Errorf("incomplete: %+v", w)
				}
			}
			testkit.CheckGolden(t, strings.TrimSuffix(name, ".yaml")+".want", text)
			checkTable(t, table)
		})
	}
}

// checkTable checks properties of every table.
func checkTable(t *testing.T, table *rule.Table) {
	t.Helper()
	keys := map[string]string{}
	names := map[string]bool{}
	for i, r := range table.Rules() {
		if r.Index != i || r.Name == "" || r.File == "" || r.Line == 0 || r.Limit == nil || r.Domain == "" {
			t.Errorf("rule %d is incomplete: %+v", i, r)
		}
		if names[r.Domain+"\x00"+r.Name] {
			t.Errorf("two rules of %s are named %s", r.Domain, r.Name)
		}
		names[r.Domain+"\x00"+r.Name] = true
		var entries []rule.Entry
		for _, l := range r.Path {
			entries = append(entries, rule.Entry{Key: l.Key, Value: l.Value})
		}
		key := string(r.AppendKey(nil, entries))
		if other, twice := keys[key]; twice {
			t.Errorf("%s and %s share the key %q", r.Name, other, key)
		}
		keys[key] = r.Name
		varies := slices.ContainsFunc(r.Path, func(l rule.Level) bool { return l.Value == "" || l.Wildcard && !l.Shared })
		if varies {
			continue
		}
		if both, end := r.AppendPool([]byte("x"), nil); string(both) != "x"+key+string(r.AppendPlace(nil, entries)) || end != 1+len(key) {
			t.Errorf("%s as a pool has the key and place %q, %d, want %q", r.Name, both, end, key)
		}
	}
}

// A table depends on the bytes of its files only: its hash does not change with file names, and
// domains are in file order.
func TestParseSeveralFiles(t *testing.T) {
	a := rulefile.Source{Name: "a.yaml", Data: []byte("domain: a\ndescriptors: [{key: k, rate_limit: {per: 1s, requests: 1}}]\n")}
	b := rulefile.Source{Name: "b.yaml", Data: []byte("domain: b\ndescriptors: [{key: k, rate_limit: {per: 1s, requests: 1}}]\n")}
	table, err := rulefile.Parse(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if d := table.Domains(); len(d) != 2 || d[0].Name() != "a" || d[1].Name() != "b" || table.Domain("b") != d[1] || table.Domain("c") != nil {
		t.Errorf("domains %v", d)
	}
	if r := table.Rules(); len(r) != 2 || r[1].Name != "b/k" || r[1].Index != 1 || r[1].File != "b.yaml" {
		t.Errorf("rules %v", r)
	}
	checkTable(t, table)

	renamed, _ := rulefile.Parse(rulefile.Source{Name: "x", Data: a.Data}, b)
	turned, _ := rulefile.Parse(b, a)
	if table.Hash() != renamed.Hash() || table.Hash() == turned.Hash() || len(table.Hash()) != 12 {
		t.Errorf("hashes %s %s %s", table.Hash(), renamed.Hash(), turned.Hash())
	}
	if empty, err := rulefile.Parse(); err != nil || len(empty.Rules()) != 0 || empty.Domain("a") != nil {
		t.Errorf("no files: %v, %v", empty, err)
	}
}

// A domain in two files is refused with both places. All faults of all files are reported in
// order.
func TestParseReportsAllFiles(t *testing.T) {
	_, err := rulefile.Parse(
		rulefile.Source{Name: "a.yaml", Data: []byte("# first\ndomain: a\nwrong: 1\n")},
		rulefile.Source{Name: "b.yaml", Data: []byte("domain: b\n")},
		rulefile.Source{Name: "c.yaml", Data: []byte("domain: a\n")},
		rulefile.Source{Name: "d.yaml", Data: []byte("domain: b\n\n")},
	)
	want := `a.yaml:3: unknown word "wrong" in the file
  hint: known here are after_loss, atomic, cache, coordination, default_plan, deny, descriptors, domain, exempt, gossip, http, local_share, nodes, on_store_failure, plans
c.yaml:1: domain "a" stands in two files; the other is a.yaml:2
  hint: put all descriptors of a domain into one file, name one of the domains otherwise, or set rules-merge
d.yaml:1: domain "b" stands in two files; the other is b.yaml:1
  hint: put all descriptors of a domain into one file, name one of the domains otherwise, or set rules-merge`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	var first *rule.Error
	if !errors.As(err, &first) || first.File != "a.yaml" {
		t.Errorf("first fault %v", first)
	}
}

// Envoy's words and Stint's words give the same limit.
func TestPairsOfWords(t *testing.T) {
	parse := func(limit string) *rule.Rule {
		table, err := rulefile.Parse(rulefile.Source{Name: "a", Data: []byte("domain: a\ndescriptors: [{key: k, rate_limit: {" + limit + "}}]")})
		if err != nil {
			t.Fatal(err)
		}
		return table.Rules()[0]
	}
	for unit, per := range map[string]string{"second": "1s", "minute": "1m", "hour": "60m", "DAY": "1d", "Week": "7d", "month": "30d", "year": "365d"} {
		theirs, ours := parse("unit: "+unit+", requests_per_unit: 9"), parse("per: "+per+", requests: 9")
		if !theirs.Limit.ForStores().Same(ours.Limit) || theirs.Unit != strings.ToLower(unit) || ours.Unit != "" {
			t.Errorf("unit %s is %v, per %s is %v", unit, theirs.Limit.Spec(), per, ours.Limit.Spec())
		}
	}
	if zone := parse("unit: month, requests: 9, time_zone: Europe/Madrid").Limit.Spec(); zone.Zone.String() != "Europe/Madrid" || zone.Per != 0 {
		t.Errorf("calendar month: %+v", zone)
	}
}
