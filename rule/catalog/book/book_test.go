package book

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/catalog"
)

func sample(id string, n int) catalog.Rule {
	return catalog.Rule{ID: id, UID: "all", URL: "/v1/" + id, Time: "minute", Requests: uint64(n)}
}

func open(t *testing.T, path string) *Book {
	t.Helper()
	b, err := Open(path, catalog.Options{Domain: "api"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// show returns the rules in force as ID=REQUESTS.
func show(b *Book) string {
	var list []string
	for _, r := range b.Catalog().List("", 1000) {
		list = append(list, fmt.Sprint(r.ID, "=", r.Requests))
	}
	return strings.Join(list, " ")
}

func rows(text string) string { return strings.ReplaceAll(text, " ", "\n") }

// Each change is in force at once, and also after reopening the file.
func TestChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	changes(t, open(t, path), func(b *Book) *Book {
		testkit.Must(t, b.Close())
		return open(t, path)
	})
}

// changes makes changes, and checks which rules are in force after each. again returns the book after
// it was closed and opened.
func changes(t *testing.T, b *Book, again func(*Book) *Book) {
	t.Helper()
	is := func(present catalog.Rule, exists bool) bool { return exists && present.Requests == 2 }
	none := func(_ catalog.Rule, exists bool) bool { return !exists }
	put := func(r catalog.Rule, must Precondition) func() (string, error) {
		return func() (string, error) {
			created, err := b.Put(t.Context(), r, must)
			return fmt.Sprint(created), err
		}
	}
	remove := func(id string, must Precondition) func() (string, error) {
		return func() (string, error) {
			there, err := b.Delete(t.Context(), id, must)
			return fmt.Sprint(there), err
		}
	}
	load := func(text string, how Import) func() (string, error) {
		return func() (string, error) {
			n, err := b.Import(t.Context(), ReadRules("body", CSV, strings.NewReader(rows(text))), how)
			return fmt.Sprint(n), err
		}
	}
	hash := ""
	for _, step := range []struct {
		name         string
		do           func() (string, error)
		answer, want string
		fault        string
	}{
		{"the first", put(sample("a", 1), nil), "true", "a=1", ""},
		{"another", put(sample("b", 1), none), "true", "a=1 b=1", ""},
		{"the same", put(sample("b", 1), nil), "false", "a=1 b=1", ""},
		{"changed", put(sample("b", 2), nil), "false", "a=1 b=2", ""},
		{"there already", put(sample("b", 3), none), "false", "a=1 b=2", `the rule "b" is not what it was taken for`},
		{"not there", put(sample("c", 3), is), "false", "a=1 b=2", "there is no such rule"},
		{"as it was taken for", put(sample("b", 3), is), "false", "a=1 b=3", ""},
		{"no rule", put(catalog.Rule{ID: "c", URL: "/x"}, nil), "false", "a=1 b=3", "time"},
		{"delete another", remove("b", is), "false", "a=1 b=3", `the rule "b" is not what it was taken for`},
		{"delete", remove("b", nil), "true", "a=1", ""},
		{"delete nothing", remove("b", nil), "false", "a=1", ""},
		{"merge", load("a,,/v1/a,minute,5 c,,/v1/c,minute,6", Import{}), "2", "a=5 c=6", ""},
		{"merge with a fault", load("d,,/v1/d,minute,5 a,,/v1/a,never,6", Import{}), "0", "a=5 c=6", "body:2: time"},
		{"replace", load("e,,/v1/e,minute,5 d,,/v1/d,minute,6", Import{Replace: true}), "2", "d=6 e=5", ""},
		{"for others", load("f,,/v1/f,minute,5", Import{Hash: "stale"}), "0", "d=6 e=5", "have the hash"},
		{"replace by no bytes", load("", Import{Replace: true}), "0", "d=6 e=5", "the file is empty"},
		{"replace by nothing", load("\n", Import{Replace: true}), "0", "", ""},
	} {
		answer, err := step.do()
		if answer != step.answer || show(b) != step.want || (err == nil) != (step.fault == "") || err != nil && !strings.Contains(err.Error(), step.fault) {
			t.Fatalf("%s: %s, %v, in force %q; want %s, %q, %q", step.name, answer, err, show(b), step.answer, step.fault, step.want)
		}
		hash = b.Catalog().Hash()
		if b = again(b); show(b) != step.want || b.Catalog().Hash() != hash {
			t.Fatalf("%s: opened again %q %s, want %q %s", step.name, show(b), b.Catalog().Hash(), step.want, hash)
		}
	}
}

// A change that cannot be written is undone.
func TestUnwritable(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "rules.db"))
	_, err := b.Put(t.Context(), sample("a", 1), nil)
	testkit.Must(t, err)
	testkit.Must(t, b.disk.Close()) // writes fail from now on
	for name, change := range map[string]func() error{
		"put":    func() error { _, err := b.Put(t.Context(), sample("a", 2), nil); return err },
		"create": func() error { _, err := b.Put(t.Context(), sample("b", 2), nil); return err },
		"delete": func() error { _, err := b.Delete(t.Context(), "a", nil); return err },
	} {
		err := change()
		if _, ok := errors.AsType[*DiskError](err); !ok || show(b) != "a=1" {
			t.Errorf("%s: %v, in force %q", name, err, show(b))
		}
	}
}

// Rules of files are loaded all or none, and cannot be changed one by one.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.csv"), filepath.Join(dir, "bad.csv")
	testkit.Must(t, os.WriteFile(good, []byte("a,,/v1/a,minute,1\n"), 0o600))
	testkit.Must(t, os.WriteFile(bad, []byte("b,,/v1/b,minute\n"), 0o600))
	b := New(catalog.Options{})
	testkit.Must(t, b.Load(good))
	err := b.Load(good, bad)
	if faults, ok := errors.AsType[*rule.Errors](err); !ok || len(faults.List) != 1 || faults.List[0].File != bad {
		t.Errorf("error %v", err)
	}
	testkit.Must(t, os.WriteFile(bad, []byte("# b\nb,,/v1/a,60s,1\n"), 0o600))
	if err := b.Load(good, bad); err == nil || !strings.HasPrefix(err.Error(), bad+":2: rule b: /v1/a for uid \"\" per 60s is already limited by rule a") {
		t.Errorf("error %v", err)
	}
	_, err = b.Put(t.Context(), sample("a", 2), nil)
	_, errDelete := b.Delete(t.Context(), "a", nil)
	_, errImport := b.Import(t.Context(), nil, Import{})
	for _, err := range []error{err, errDelete, errImport} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("error %v", err)
		}
	}
	if b.Changeable() || show(b) != "a=1" {
		t.Errorf("in force %q", show(b))
	}
	testkit.Must(t, b.Close())
}

// Opening a store with rules that this version refuses returns an error.
func TestRefusedByThisVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	s, err := OpenDisk(path)
	testkit.Must(t, err)
	testkit.Must(t, s.Put(catalog.Rule{ID: "a", URL: "/x", Time: "blink"}))
	testkit.Must(t, s.Close())
	_, err = Open(path, catalog.Options{Domain: "api"})
	if fault, ok := errors.AsType[*DiskError](err); !ok || !strings.Contains(fault.Problem, "a rule in it is refused") {
		t.Errorf("error %v", err)
	}
	if s, err = OpenDisk(path); err != nil {
		t.Fatalf("the file is still held: %v", err)
	}
	testkit.Must(t, s.Close())
	for _, wrong := range []string{path + "/no/rules.db", filepath.Dir(path)} {
		if _, err := Open(wrong, catalog.Options{Domain: "api"}); err == nil {
			t.Errorf("%s opened", wrong)
		}
	}
	if err := open(t, path+"2").Load(path); err == nil {
		t.Error("a book with a store has loaded a file")
	}
}

// Reload reads files again if they look changed, if that cannot be determined, or if they were
// refused. It reports news only if anything changed.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.csv")
	at := time.Now().Add(-time.Hour)
	put := func(text string) {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		at = at.Add(time.Second)
		testkit.Must(t, os.Chtimes(file, at, at))
	}
	b := New(catalog.Options{})
	put("a,,/v1/a,minute,1\n")
	testkit.Must(t, b.Load(file))
	for _, step := range []struct {
		name   string
		do     func()
		always bool
		news   bool
		fault  bool
		reads  bool // whether the generation shows a new read, if there is no fault
		want   string
	}{
		{"as it was", func() {}, false, false, false, false, "a=1"},
		{"asked for", func() {}, true, true, false, true, "a=1"},
		{"the same, written anew", func() { put("a,,/v1/a,minute,1\n") }, false, false, false, true, "a=1"},
		{"another", func() { put("a,,/v1/a,minute,2\n") }, false, true, false, true, "a=2"},
		{"a fault", func() { put("a,,/v1/a,minute\n") }, false, true, true, false, "a=2"},
		{"the same fault", func() {}, false, false, true, false, "a=2"},
		{"the same fault, asked for", func() {}, true, true, true, false, "a=2"},
		{"mended", func() { put("a,,/v1/a,minute,2\n") }, false, true, false, true, "a=2"},
		{"too young to tell", func() { at = time.Now(); put("a,,/v1/a,minute,2\n") }, false, false, false, true, "a=2"},
		{"still", func() {}, false, false, false, true, "a=2"},
	} {
		step.do()
		before := b.Catalog().Generation()
		news, err := b.Reload(step.always, file)
		if news != step.news || (err != nil) != step.fault || b.Catalog().Generation() > before != step.reads || show(b) != step.want {
			t.Errorf("%s: news %v, error %v, generation %d after %d, in force %s", step.name, news, err, b.Catalog().Generation(), before, show(b))
		}
		if last := b.Loads(); (last.Failure != nil) != step.fault {
			t.Errorf("%s: the last failure is %v", step.name, last.Failure)
		}
	}
	if n := b.Loads().Refused; n != 3 {
		t.Errorf("%d loads were refused", n)
	}
}
