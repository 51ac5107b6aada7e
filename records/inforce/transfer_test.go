package inforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
	"stint/records/transfer"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
	"stint/store/redis/recordlog"
)

func load(f *records.File, text string, o transfer.Options) (transfer.Difference, error) {
	o.Kinds = transfer.KindsOf(f)
	diff, _, err := transfer.Import(context.Background(), f, strings.NewReader(text), o, time.Now())
	return diff, err
}

func export(t *testing.T, f *records.File, format transfer.Format) string {
	t.Helper()
	var out strings.Builder
	kinds := transfer.KindsOf(f)
	testkit.Must(t, transfer.Export(f, transfer.NewWriter(&out, format, kinds...), kinds, time.Now()))
	return out.String()
}

// counts returns what an import has added, changed, deleted and left.
func counts(d *transfer.Difference) string {
	return fmt.Sprint(d.Added, d.Changed, d.Deleted, d.Unchanged)
}

// Rules are exported and imported as the other kinds are, in both formats, with a dry run that prints the
// difference. An export that is imported again changes nothing.
func TestTransferRules(t *testing.T) {
	b, file := open(t, filepath.Join(t.TempDir(), "records.db"))
	for _, r := range []catalog.Rule{
		sample("a", "/a", 1), sample("none", "/none", 0),
		{ID: "free", UID: "42", URL: "/a", Algorithm: "unlimited"},
		{ID: "=full", UID: "plan:gold", URL: "/{x}", Time: "90s", Requests: 4000000, Algorithm: "token_bucket", Burst: 7, Domain: "other", Policy: "shadow"},
	} {
		_, err := b.Put(t.Context(), r, nil)
		testkit.Must(t, err)
	}
	_, err := file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Put: records.Ban{Subject: "user=1"}}}}, time.Now())
	testkit.Must(t, err)
	want := `{"record":"ban","subject":"user=1"}
{"record":"rule","id":"=full","uid":"plan:gold","url":"/{x}","time":"90s","requests":4000000,"burst":7,"algorithm":"token_bucket","domain":"other","policy":"shadow"}
{"record":"rule","id":"a","uid":"all","url":"/a","time":"minute","requests":1}
{"record":"rule","id":"free","uid":"42","url":"/a","algorithm":"unlimited"}
{"record":"rule","id":"none","uid":"all","url":"/none","time":"minute","requests":0}
{"record":"end","count":5}
`
	if got := export(t, file, transfer.JSONLines); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, format := range []transfer.Format{transfer.JSONLines, transfer.CSV} {
		text := export(t, file, format)
		if format == transfer.CSV && !strings.Contains(text, "'=full") {
			t.Errorf("a formula:\n%s", text)
		}
		diff, err := load(file, text, transfer.Options{Format: format, Replace: true})
		if err != nil || counts(&diff) != "0 0 0 5" {
			t.Errorf("again: %+v, %v", diff, err)
		}
		copied, empty := open(t, filepath.Join(t.TempDir(), "copy.db"))
		diff, err = load(empty, text, transfer.Options{Format: format})
		if err != nil || counts(&diff) != "5 0 0 0" || export(t, empty, format) != text || copied.Catalog().Hash() != b.Catalog().Hash() {
			t.Errorf("%+v, %v:\n%s\nwant\n%s", diff, err, export(t, empty, format), text)
		}
	}
	const next = `{"record":"rule","id":"a","uid":"all","url":"/a","time":"minute","requests":2}
{"record":"rule","id":"b","url":"/b","time":"hour","requests":3}
{"record":"end","count":2}
`
	for _, dry := range []bool{true, false} {
		before := show(b)
		diff, err := load(file, next, transfer.Options{Replace: true, DryRun: dry})
		if err != nil || counts(&diff) != "1 1 4 0" || diff.Shown[0].Name != "a" || *diff.Shown[0].Before.Requests != 1 || *diff.Shown[0].After.Requests != 2 {
			t.Errorf("%+v, %v", diff, err)
		}
		if now := show(b); dry && now != before || !dry && now != "a=2 b=3" {
			t.Errorf("dry run %v: %s", dry, now)
		}
	}
}

// Faults of rules are found before the first change, also those between rules; a dry run finds them too.
func TestTransferBadRules(t *testing.T) {
	b, file := open(t, filepath.Join(t.TempDir(), "records.db"))
	_, err := b.Put(t.Context(), sample("a", "/a", 1), nil)
	testkit.Must(t, err)
	const good = `{"record":"rule","id":"c","url":"/c","time":"day","requests":1}` + "\n"
	for _, tt := range []struct{ text, want string }{
		{`{"record":"rule","id":"x","time":"day","requests":1}`, `line 2: rule x: no url`},
		{`{"record":"rule","id":"x","url":"/x","time":"day"}`, `line 2: rule x: requests: missing`},
		{`{"record":"rule","id":"x","url":"/x","time":"noon","requests":1}`, `line 2: rule x: time: "noon" is not a valid time`},
		{`{"record":"rule","url":"/x","time":"day","requests":1}`, `line 2: rule `},
		{`{"record":"rule","id":"x","url":"/x","per":"1m"}`, `line 2: per: no field of rule`},
		{`{"record":"rule","id":"x","uid":"all","url":"/a","time":"minute","requests":1}`, `rule x: /a for uid "all" per minute is already limited by rule a`},
		{`{"record":"rule","id":"x","url":"/c","time":"day","requests":1}`, `rule x: /c for uid "" per day is already limited by rule c`},
		{`{"record":"rule","id":"c","url":"/d","time":"day","requests":1}`, `line 2: rule c is there twice`},
	} {
		for _, dry := range []bool{true, false} {
			_, err := load(file, good+tt.text+"\n"+`{"record":"end","count":2}`+"\n", transfer.Options{DryRun: dry})
			if err == nil || !strings.Contains(err.Error(), tt.want) || show(b) != "a=1" {
				t.Errorf("%s: %v, want %s; in force %s", tt.text, err, tt.want, show(b))
			}
		}
	}
	alone, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	defer alone.Close()
	_, err = load(alone, good+`{"record":"end","count":1}`+"\n", transfer.Options{})
	line, ok := errors.AsType[*transfer.LineError](err)
	if !ok || !strings.Contains(line.Problem, "a rule in an import of subject") || !strings.Contains(line.Hint, "/v1/rules") {
		t.Errorf("%v", err)
	}
}

// Rules that exchange their urls, and new ones that take an old url, fit however they are ordered.
func TestTransferExchangedRules(t *testing.T) {
	b, file := open(t, filepath.Join(t.TempDir(), "records.db"))
	for _, r := range []catalog.Rule{sample("b", "/b", 1), sample("c", "/c", 1), sample("d", "/d", 1)} {
		_, err := b.Put(t.Context(), r, nil)
		testkit.Must(t, err)
	}
	_, err := load(file, `record,id,uid,url,time,requests
rule,a,all,/d,minute,5
rule,b,all,/c,minute,6
rule,c,all,/b,minute,7
end,3,,,,
`, transfer.Options{Format: transfer.CSV, Replace: true})
	if err != nil || show(b) != "a=5 b=6 c=7" {
		t.Errorf("%v, %s", err, show(b))
	}
}

// An import that is too large for nodes to share is made in parts, from files of records and from files of rules.
func TestSharedImportOfRules(t *testing.T) {
	t.Parallel()
	const n = 30_000
	log, err := recordlog.Open(testkit.StartRedis(t).URL(), "shop")
	testkit.Must(t, err)
	t.Cleanup(log.Close)
	rules := NewRules(catalog.Options{Domain: "api"}, slog.New(slog.DiscardHandler))
	file, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{Rules: rules, Log: log})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	rules.Use(file)
	b := rules.Book()
	// Each rule takes the url that another one had before.
	csv := func(shift int, first string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "%sr%05d,all,/v1/things/%05d/and/more/of/a/long/path,minute,%d\n", first, i, (i+shift)%n, i+1)
		}
		return text.String()
	}
	imported, err := b.Import(t.Context(), book.ReadRules("body", book.CSV, strings.NewReader(csv(0, ""))), book.Import{Replace: true})
	for errors.Is(err, records.ErrUnavailable) { // on a slow machine
		imported, err = b.Import(t.Context(), book.ReadRules("body", book.CSV, strings.NewReader(csv(0, ""))), book.Import{Replace: true})
	}
	if err != nil || imported != n || b.Catalog().Len() != n {
		t.Fatalf("%d, %v, %d in force", imported, err, b.Catalog().Len())
	}
	revision, err := file.Revision()
	testkit.Must(t, err)
	if revision < 2 {
		t.Errorf("revision %d: the import was one change", revision)
	}
	hash := b.Catalog().Hash()
	text := "record,id,uid,url,time,requests\n" + csv(0, "rule,") + fmt.Sprintf("end,%d,,,,\n", n)
	diff, err := load(file, text, transfer.Options{Format: transfer.CSV, Replace: true})
	if err != nil || counts(&diff) != fmt.Sprint(0, 0, 0, n) || b.Catalog().Hash() != hash {
		t.Errorf("%s, %v", counts(&diff), err)
	}
	text = strings.ReplaceAll(text, "/more/", "/less/")
	diff, err = load(file, text, transfer.Options{Format: transfer.CSV})
	if err != nil || counts(&diff) != fmt.Sprint(0, n, 0, 0) || b.Catalog().Hash() == hash {
		t.Errorf("%s, %v", counts(&diff), err)
	}
	_, err = b.Import(t.Context(), book.ReadRules("body", book.CSV, strings.NewReader(csv(1, "")[:2000])), book.Import{})
	if err == nil {
		t.Error("rules with urls of others are accepted")
	}
	if entries := audit(t, file); !slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(e, "import (import) ") }) {
		t.Errorf("%v", entries)
	}
}
