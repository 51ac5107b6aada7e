package records

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records/index"
)

// grantOf returns a grant of user=42 that ends on Friday.
func grantOf(id string, priority uint8) Grant {
	return Grant{Subject: "user=42", Name: id, Limit: "api", Units: 1000, Priority: priority, Until: friday, Why: "an order"}
}

// namesOf returns the IDs of the grants that a look-up finds.
func namesOf(t *testing.T, f *File, value string) string {
	t.Helper()
	all := []string{}
	for _, g := range lookup(t, f, "user", value).Grants {
		all = append(all, g.Name)
	}
	return fmt.Sprint(all)
}

// A look-up finds the grants of a subject in the order in which they are used, and sees each change, also after
// the file was opened again.
func TestGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	if f.Mentions("user") || !lookup(t, f, "user", "42").Empty() {
		t.Error("an empty file knows a subject")
	}
	near := Grant{Subject: "user=421", Name: "n", Limit: "api", Units: 1, Until: friday}
	put(t, f, grantOf("late", GrantPriority), grantOf("first", 7), near)
	if !f.Mentions("user") || lookup(t, f, "user", "42").Empty() {
		t.Error("the subject of a grant is not known")
	}
	check := func(want string) {
		t.Helper()
		for range 2 {
			if got := namesOf(t, f, "42"); got != want || namesOf(t, f, "421") != "[n]" || namesOf(t, f, "4") != "[]" {
				t.Errorf("%s, want %s; others %s %s", got, want, namesOf(t, f, "421"), namesOf(t, f, "4"))
			}
			testkit.Must(t, f.Close())
			f = open(t, path)
		}
	}
	check("[first late]")
	put(t, f, grantOf("first", 201))
	if got := namesOf(t, f, "42"); got != "[late first]" {
		t.Errorf("after a change: %s", got)
	}
	check("[late first]")
	apply(t, f, Change{Edits: []Edit{{Delete: grantOf("late", 0).ID()}}}, start)
	if got := namesOf(t, f, "42"); got != "[first]" {
		t.Errorf("after a deletion: %s", got)
	}
	check("[first]")
	if !f.Mentions("user") {
		t.Error("a file that was opened again does not mention the key")
	}
	if g := lookup(t, f, "user", "42").Grants[0]; g.Units != 1000 || g.Limit != "api" || !g.Until.Equal(friday) || g.Why != "" {
		t.Errorf("%+v", g)
	}
}

// A grant with a fault is refused, and the error names the grant and its field.
func TestBadGrants(t *testing.T) {
	f := openNew(t)
	bad := grantOf("order-7", 100)
	_, err := f.Apply(t.Context(), Change{Edits: []Edit{{Put: bad}}}, start)
	wantFault(t, err, "grant user=42 order-7: priority", "100 is the priority of the plan", "lower number", nil)
	bad = grantOf("order-7", 0)
	bad.Units = 0
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: bad}}}, start)
	wantFault(t, err, "grant user=42 order-7: units", "0 units grant nothing", "how many", nil)
	if len(contentOf(t, f)) > 0 {
		t.Error("a grant that was refused is there")
	}
	put(t, f, grantOf("order-7", 0))
	bad = grantOf("order-7", 0)
	bad.Limit = "export"
	_, err = f.Apply(t.Context(), Change{Edits: []Edit{{Put: bad}}}, start)
	wantFault(t, err, "grant user=42 order-7: limit", "the grant is one of api", "another id", nil)
}

// A subject has a bounded number of grants. Those that have ended do not count, and each of them can be changed.
func TestMaxGrants(t *testing.T) {
	f := openNew(t)
	ending := grantOf("ending", 0)
	ending.Until = start.Add(time.Hour)
	all := []Record{ending}
	for i := range index.MaxGrants - 1 {
		all = append(all, grantOf(fmt.Sprint("g", i), 0))
	}
	put(t, f, all...)
	more := Change{Edits: []Edit{{Put: grantOf("more", 0)}}}
	_, err := f.Apply(t.Context(), more, ending.Until.Add(-1))
	wantFault(t, err, "grant user=42 more: id", fmt.Sprintf("has %d grants already", index.MaxGrants), "delete one", nil)
	apply(t, f, Change{Edits: []Edit{{Put: grantOf("g0", 9)}}}, start)
	apply(t, f, more, ending.Until)
	if got := len(lookup(t, f, "user", "42").Grants); got != index.MaxGrants+1 {
		t.Errorf("%d grants", got)
	}
	f.subjects.Clear()
	if lookup(t, f, "user", "42"); f.subjects.Len() != 1 {
		t.Error("a subject with the most grants is not kept in memory")
	}
}

// Grants are deleted some time after they ended.
func TestSweepGrants(t *testing.T) {
	f := openNew(t)
	ending := grantOf("ending", 0)
	ending.Until = start.Add(time.Hour)
	put(t, f, ending, grantOf("staying", 0))
	for n, want := range []int{3, 3, 2} {
		apply(t, f, Change{Edits: []Edit{{Put: Subject{Name: "user=3", Kind: User, Notes: fmt.Sprint(n)}}}}, ending.Until.Add(endedFor+time.Duration(n-2)*time.Microsecond))
		if got := len(contentOf(t, f)); got != want {
			t.Errorf("round %d: %d records, want %d", n, got, want)
		}
	}
	if got := namesOf(t, f, "42"); got != "[staying]" {
		t.Errorf("%s", got)
	}
}

// Grants of a subject are in its export, and go with an erasure, also from the audit trail.
func TestEraseGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	f := open(t, path)
	mine := Grant{Subject: personal, Name: "order-7f3a-x", Limit: "limit-7f3a-x", Units: 1, Until: friday, Why: "why-7f3a-x"}
	put(t, f, mine, grantOf("near", 0))
	entries, _, err := f.Export(personal)
	testkit.Must(t, err)
	if len(entries) != 1 || entries[0].Record.ID() != mine.ID() {
		t.Errorf("exported %+v", entries)
	}
	out, err := f.Erase(t.Context(), personal, alice, start.Add(time.Hour))
	if err != nil || out.Records != 1 || out.Entries != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if got := traces(t, f, "7f3a-x"); len(got) > 0 {
		t.Errorf("the file still has %q", got)
	}
	if got := contentOf(t, f); len(got) != 1 {
		t.Errorf("%v is left", got)
	}
	wantWhole(t, f, 3)
}

// A grant that one node writes is in force on the others, and so is its deletion.
func TestSharedGrants(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 2)
	nodes[0].write(grantOf("order-7", 0))
	wait(t, "the grant is in force", func() bool { return nodes[1].Mentions("user") && namesOf(t, nodes[1].File, "42") == "[order-7]" })
	_, err := nodes[1].Apply(t.Context(), Change{Edits: []Edit{{Delete: grantOf("order-7", 0).ID()}}}, start)
	testkit.Must(t, err)
	wait(t, "the grant has ended", func() bool { return namesOf(t, nodes[0].File, "42") == "[]" })
	agree(t, nodes...)
}
