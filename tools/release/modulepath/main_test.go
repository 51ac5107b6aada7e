package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMove checks what is moved, and what only looks like it.
func TestMove(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const to = "github.com/you/limits"
	files := map[string][2]string{
		"go.mod":          {"module stint\n\nrequire example.com/stint v1.0.0\n", "module github.com/you/limits\n\nrequire example.com/stint v1.0.0\n"},
		"gateway/go.mod":  {"module stint/gateway\n\nrequire (\n\tstint v0.0.0\n)\n\nreplace stint => ../\n", "module github.com/you/limits/gateway\n\nrequire (\n\tgithub.com/you/limits v0.0.0\n)\n\nreplace github.com/you/limits => ../\n"},
		"rule/a.go":       {"package rule\n\nimport (\n\t\"stint\"\n\tx \"stint/rule\" // why\n)\n\nvar s = \"stint\"\n", "package rule\n\nimport (\n\t\"github.com/you/limits\"\n\tx \"github.com/you/limits/rule\" // why\n)\n\nvar s = \"stint\"\n"},
		"rule/b.go":       {"package rule\n\nimport \"stint\"\n\n// see [stint/rule.Table]\n", "package rule\n\nimport \"github.com/you/limits\"\n\n// see [github.com/you/limits/rule.Table]\n"},
		"docs/a.md":       {"/etc/stint/rule.yaml, stint/rules, ./cmd/stint/rule, --with stint/gateway=./gateway --replace stint=.", "/etc/stint/rule.yaml, stint/rules, ./cmd/stint/rule, --with github.com/you/limits/gateway=./gateway --replace github.com/you/limits=."},
		"README.md":       {"a\n<!-- before make module-path -->\nstint@v0.0.0\n<!-- after it -->\nb\n", "a\n```sh\ngo get github.com/you/limits@latest\n```\nb\n"},
		".golangci.yml":   {"module-path: stint\n- prefix(stint)\n", "module-path: github.com/you/limits\n- prefix(github.com/you/limits)\n"},
		".cache/x/a.go":   {"import \"stint/rule\"\n", "import \"stint/rule\"\n"},
		"docs/a.png":      {"\x00 stint/rule", "\x00 stint/rule"},
		"internal/r/r.go": {"const modulePath = \"stint\"\nvar _ = \"imports stint/internal\"\n", "const modulePath = \"github.com/you/limits\"\nvar _ = \"imports github.com/you/limits/internal\"\n"},
	}
	for name, texts := range files {
		write(name, texts[0])
	}
	if n, err := move(root, to); err != nil || n != len(files)-2 {
		t.Errorf("moved %d files, %v", n, err)
	}
	for name, texts := range files {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != texts[1] {
			t.Errorf("%s: %q, want %q (%v)", name, got, texts[1], err)
		}
	}
	// Another move.
	const next = "example.org/you/limits/more"
	if n, err := move(root, next); err != nil || n != len(files)-2 {
		t.Errorf("moved %d files again, %v", n, err)
	}
	for name, texts := range files {
		want := strings.ReplaceAll(texts[1], to, next)
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q (%v)", name, got, want, err)
		}
	}
	for _, path := range []string{"stint", "github.com/you/Limits and more", "/usr/bin:/bin", "", "github.com/you/stint/v2", "gopkg.in/stint.v1"} {
		if _, err := move(root, path); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
}
