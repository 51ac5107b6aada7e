package rulefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// write creates a file and its folders.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// loaded returns the names of a table's domains.
func loaded(table *rule.Table) string {
	var all []string
	for _, d := range table.Domains() {
		all = append(all, d.Name())
	}
	return strings.Join(all, " ")
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rules/b.yaml":        "domain: b\n",
		"rules/a.yml":         "domain: a\n",
		"rules/sub/c.yaml":    "domain: c\n",
		"rules/a_test.yaml":   "tests: []\n",
		"rules/notes.txt":     "not rules",
		"rules/.hidden.yaml":  "domain: hidden\n",
		"rules/.git/x.yaml":   "domain: git\n",
		"rules/sub/README.md": "not rules",
		"elsewhere/d.yaml":    "domain: d\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	link(t, "../elsewhere", filepath.Join(dir, "rules/linked"))
	link(t, "../elsewhere/d.yaml", filepath.Join(dir, "rules/z.yaml"))
	link(t, "..", filepath.Join(dir, "rules/sub/loop"))
	rules := filepath.Join(dir, "rules")
	for _, tt := range []struct {
		paths []string
		want  string
	}{
		{[]string{rules}, "a b d c"},
		{[]string{filepath.Join(rules, "b.yaml")}, "b"},
		{[]string{filepath.Join(rules, "b.yaml"), rules}, "b a d c"},
		{[]string{rules, filepath.Join(rules, "b.yaml"), rules}, "a b d c"},
		{[]string{filepath.Join(dir, "elsewhere"), filepath.Join(rules, "sub/c.yaml")}, "d c"},
		{[]string{filepath.Join(rules, ".hidden.yaml")}, "hidden"}, // named explicitly, so it is read
	} {
		table, err := rulefile.Load(tt.paths...)
		if err != nil {
			t.Errorf("%v: %v", tt.paths, err)
			continue
		}
		if got := loaded(table); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.paths, got, tt.want)
		}
	}
}

// A Kubernetes volume shows each file three times; Load reads it once.
func TestLoadKubernetesVolume(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "..2026_01_01/rules.yaml"), "domain: old\n")
	write(t, filepath.Join(dir, "..2026_01_02/rules.yaml"), "domain: new\n")
	link(t, "..2026_01_01", filepath.Join(dir, "..data"))
	link(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	for _, want := range []string{"old", "new"} {
		table, err := rulefile.Load(dir)
		if err != nil || loaded(table) != want {
			t.Errorf("%v, %v, want %s", table, err, want)
		}
		link(t, "..2026_01_02", filepath.Join(dir, "..data_tmp"))
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad/a.yaml"), "domain: a\nwrong: 1\n")
	write(t, filepath.Join(dir, "bad/b.yaml"), "domain: b\nwrong: 1\n")
	write(t, filepath.Join(dir, "good.yaml"), "domain: a\n")
	write(t, filepath.Join(dir, "empty/notes.txt"), "")
	link(t, "nowhere.yaml", filepath.Join(dir, "dangling.yaml"))
	for _, tt := range []struct {
		paths []string
		want  []string
	}{
		{[]string{"missing.yaml"}, []string{"missing.yaml: cannot find it: no such file or directory\n  hint: "}},
		{[]string{"dangling.yaml"}, []string{"dangling.yaml: cannot find it"}},
		{[]string{"empty"}, []string{"empty: no rule file here\n  hint: name a file, or a folder"}},
		{[]string{"empty", "missing.yaml"}, []string{"empty: no rule", "missing.yaml: cannot"}},
		{[]string{"bad"}, []string{"bad/a.yaml:2: unknown word", "bad/b.yaml:2: unknown word"}},
	} {
		var paths []string
		for _, p := range tt.paths {
			paths = append(paths, filepath.Join(dir, p))
		}
		table, err := rulefile.Load(paths...)
		if err == nil || table != nil {
			t.Errorf("%v: accepted", tt.paths)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v\nwant %s", tt.paths, err, want)
			}
		}
	}
}
