package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint"
	"stint/app"
	"stint/app/settings"
	"stint/cmd/stint/cli"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// The rule files of examples have no faults and no warnings and pass their tests, both each alone
// and all as one folder.
func TestExampleRules(t *testing.T) {
	files, err := filepath.Glob("../../examples/rules/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %q, error %v", files, err)
	}
	for _, file := range append(files, "../../examples/rules") {
		t.Run(filepath.Base(file), func(t *testing.T) { checkFiles(t, file) })
	}
}

// No example lets a client escape its limits by made up values. groups.yaml needs a gateway in
// front that signs users in, and its comment says so.
func TestExamplesHoldWhoMakesUpValues(t *testing.T) {
	files, err := filepath.Glob("../../examples/rules/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %q, error %v", files, err)
	}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasSuffix(name, "_test.yaml") || name == "groups.yaml" {
			continue
		}
		var out, errs bytes.Buffer
		if status := run(t.Context(), cli.Streams{Out: &out, Err: &errs}, []string{"check", "--fail-on", "claimed-key,endless-key", file}); status != exitOK {
			t.Errorf("%s: status %d\n%s%s", filepath.Base(file), status, out.String(), errs.String())
		}
	}
}

// The configuration of make run can be read, its rules exist, and the domain of its demo has
// actions that make descriptors.
func TestExampleConfig(t *testing.T) {
	config, err := settings.Configure([]settings.Given{{Name: "config", Value: "../../examples/stint.yaml", Where: "--config"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := rulefile.Load(config.Rules...)
	if err != nil {
		t.Fatal(err)
	}
	if d := table.Domain(config.Demo); d == nil || !d.HasHTTP() {
		t.Errorf("no http rules in domain %q", config.Demo)
	}
	if _, err := app.New(config); err != nil {
		t.Error(err)
	}
}

// Each recipe with a rule is a rule file without faults and warnings, and passes its tests in
// docs/recipes_test.yaml.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("../../docs/recipes_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile("(?s)\n## (\\d+)\\. [^\n]+\n(.*?)```yaml\n(.*?)```\n\nThen: ")
	found := recipe.FindAllSubmatch(page, -1)
	if n := bytes.Count(page, []byte("```yaml")); len(found) != 16 || n != 16 {
		t.Fatalf("%d recipes with a rule and what comes of it, %d rules; want sixteen", len(found), n)
	}
	folder := t.TempDir()
	for _, m := range found {
		name := filepath.Join(folder, fmt.Sprintf("recipe%s.yaml", m[1]))
		if err := os.WriteFile(name, m[3], 0o600); err != nil {
			t.Fatal(err)
		}
		domain, _, _ := strings.Cut(string(m[3]), "\n")
		if !strings.Contains(string(tests), fmt.Sprintf("  - name: %s. ", m[1])) || !strings.Contains(string(tests), "    "+domain+"\n") {
			t.Errorf("recipe %s (%s) has no test in docs/recipes_test.yaml", m[1], domain)
		}
		checkFiles(t, name)
	}
	if err := os.WriteFile(filepath.Join(folder, "recipes_test.yaml"), tests, 0o600); err != nil {
		t.Fatal(err)
	}
	checkFiles(t, folder)
}

// checkFiles runs the checker, which must find no fault and give no warning.
func checkFiles(t *testing.T, name string) {
	t.Helper()
	var out, errs bytes.Buffer
	if status := run(t.Context(), cli.Streams{Out: &out, Err: &errs}, []string{"check", "--fail-on", "warning", name}); status != exitOK {
		t.Errorf("%s: status %d\n%s", filepath.Base(name), status, errs.String())
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "ok: ") && !strings.Contains(line, " while the store is away ") && !strings.Contains(line, ": gossip: ") {
			t.Errorf("%s: said %q", filepath.Base(name), line)
		}
	}
}

// The recipe of a limit that changes: who has used it up has the difference at once.
func TestRecipeOfChange(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "domain: api-plan\n")
	file, _, _ = strings.Cut("domain: api-plan\n"+file, "```")
	tables := [2]*rule.Table{}
	for i, text := range []string{file, strings.Replace(file, "10000", "20000", 1)} {
		if tables[i], err = rulefile.Parse(rulefile.Source{Name: "recipe", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	l := limiter.New(memory.New(memory.Options{}), tables[0], limiter.Options{})
	ask := func(cost uint32) (allowed bool, remaining int64) {
		var v limiter.Verdict
		request := limiter.Request{
			Domain: "api-plan", At: stint.Instant(1767225600_000_000), // 2026-01-01
			Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "customer", Value: "c"}}, Cost: cost}},
		}
		if err := l.Decide(t.Context(), &request, &v); err != nil {
			t.Fatal(err)
		}
		return v.Allowed, v.Remaining
	}
	if allowed, remaining := ask(10_000); !allowed || remaining != 0 {
		t.Errorf("allowed %t, remaining %d; want the whole plan", allowed, remaining)
	}
	l.Swap(tables[1])
	if allowed, remaining := ask(0); !allowed || remaining != 10_000 {
		t.Errorf("allowed %t, remaining %d after the change, want 10,000", allowed, remaining)
	}
}
