package inforce

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// open opens a file of records with rules.
func open(t *testing.T, path string) (*book.Book, *records.File) {
	t.Helper()
	rules := NewRules(catalog.Options{Domain: "api"}, slog.New(slog.DiscardHandler))
	file, err := records.Open(path, records.Options{Rules: rules})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	rules.Use(file)
	return rules.Book(), file
}

func sample(id, url string, requests uint64) catalog.Rule {
	return catalog.Rule{ID: id, UID: "all", URL: url, Time: "minute", Requests: requests}
}

// show returns the rules in force as ID=REQUESTS.
func show(b *book.Book) string {
	var list []string
	for _, r := range b.Catalog().List("", 1000) {
		list = append(list, fmt.Sprint(r.ID, "=", r.Requests))
	}
	return strings.Join(list, " ")
}

// audit returns the entries of the audit trail as ACTION OBJECT BEFORE AFTER BY.
func audit(t *testing.T, f *records.File) (list []string) {
	t.Helper()
	for e, err := range f.Trail(0) {
		testkit.Must(t, err)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s %s", e.Action, e.Object, e.Before, e.After, e.Actor, e.Why)))
	}
	return list
}

// Each change of a rule is in force at once, in the audit trail, and there after a restart.
func TestRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	b, file := open(t, path)
	ctx := WithActor(t.Context(), records.Actor{Name: "deploy", From: "192.0.2.7"}, "ticket 7")
	created, err := b.Put(ctx, sample("a", "/a", 1), nil)
	testkit.Must(t, err)
	_, err = b.Put(ctx, catalog.Rule{ID: "free", UID: "42", URL: "/a", Algorithm: "unlimited"}, nil)
	testkit.Must(t, err)
	again, err := b.Put(ctx, sample("a", "/a", 2), nil)
	testkit.Must(t, err)
	n, err := b.Import(ctx, book.ReadRules("body", book.CSV, strings.NewReader("c,,/c,minute,3\nd,,/d,hour,4\n")), book.Import{Replace: true})
	testkit.Must(t, err)
	there, err := b.Delete(ctx, "d", nil)
	testkit.Must(t, err)
	none, err := b.Delete(ctx, "d", nil)
	testkit.Must(t, err)
	if got := fmt.Sprint(created, again, n, there, none, " ", show(b)); got != "true false 2 true false c=3" {
		t.Errorf("answers %s", got)
	}
	hash := b.Catalog().Hash()
	want := []string{
		`put a  {"id":"a","uid":"all","url":"/a","time":"minute","requests":1} deploy ticket 7`,
		`put free  {"id":"free","uid":"42","url":"/a","algorithm":"unlimited"} deploy ticket 7`,
		`put a {"id":"a","uid":"all","url":"/a","time":"minute","requests":1} {"id":"a","uid":"all","url":"/a","time":"minute","requests":2} deploy ticket 7`,
		`import (import)  {"put":2,"deleted":2} deploy ticket 7`,
		`delete d {"id":"d","url":"/d","time":"hour","requests":4}  deploy ticket 7`,
	}
	if got := audit(t, file); !slices.Equal(got, want) {
		t.Errorf("audit trail:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	testkit.Must(t, file.Close())
	if b, _ = open(t, path); show(b) != "c=3" || b.Catalog().Hash() != hash {
		t.Errorf("after a restart %s %s, want %s", show(b), b.Catalog().Hash(), hash)
	}
}

// A refused change changes neither the file nor the rules in force, and others can be made after it.
func TestRefusedRules(t *testing.T) {
	b, file := open(t, filepath.Join(t.TempDir(), "records.db"))
	_, err := b.Put(t.Context(), sample("a", "/a", 1), nil)
	testkit.Must(t, err)
	revision, err := file.Revision()
	testkit.Must(t, err)
	_, twin := b.Put(t.Context(), sample("b", "/a", 1), nil)
	_, stale := b.Import(t.Context(), book.ReadRules("body", book.CSV, strings.NewReader("c,,/c,minute,3\n")), book.Import{Hash: "stale"})
	_, two := b.Import(t.Context(), book.ReadRules("body", book.CSV, strings.NewReader("c,,/c,minute,3\nd,,/c,minute,4\n")), book.Import{})
	for name, err := range map[string]error{"another rule with this url": twin, "another hash": stale, "two with one url": two} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if now, err := file.Revision(); err != nil || now != revision || show(b) != "a=1" {
		t.Errorf("revision %d, before %d, %v; in force %s", now, revision, err, show(b))
	}
	_, err = file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Put: records.Rule{Name: "x", Text: []byte(`{"id": "x"}`)}}}}, time.Now())
	if err == nil {
		t.Error("a rule without a url is accepted")
	}
	if _, err := b.Put(t.Context(), sample("b", "/b", 2), nil); err != nil || show(b) != "a=1 b=2" {
		t.Errorf("%v, in force %s", err, show(b))
	}
}
