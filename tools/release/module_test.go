package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// publicPath is where the tests move the modules.
const publicPath = "github.com/you/stint"

// in runs a command in a folder.
func in(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// stranger is a program that imports the library, in a folder of its own.
func stranger(t *testing.T, dir, library string) {
	t.Helper()
	main := `package main

import (
	"fmt"
	"time"

	"` + library + `"
	"` + library + `/store/memory"
)

func main() {
	store := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Hour, Burst: 1})
	fmt.Println(store.Take("user=42", limit, 1).Allowed, store.Take("user=42", limit, 1).Allowed)
}
`
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	in(t, dir, nil, "go", "mod", "init", "example.com/stranger")
}

// TestModulePath moves a copy of the repository with make, builds it, and imports it from a module
// of somebody else through the proxy of a release.
func TestModulePath(t *testing.T) {
	root := t.TempDir()
	if err := copied(root); err != nil {
		t.Fatal(err)
	}
	in(t, root, nil, "make", "module-path", "PATH="+publicPath)
	for _, dir := range []string{".", "gateway", "examples", "bench", "deploy", "tools", "tools/release", "tools/site"} {
		want := strings.TrimSuffix(publicPath+"/"+dir, "/.")
		if got := strings.TrimSpace(in(t, filepath.Join(root, dir), nil, "go", "list", "-m")); got != want {
			t.Errorf("%s: the module is %s, want %s", dir, got, want)
		}
		if rest := old(t, filepath.Join(root, dir)); rest != "" {
			t.Errorf("%s: still imports %s", dir, rest)
		}
	}
	in(t, root, nil, "go", "build", "./...")
	in(t, filepath.Join(root, "examples"), nil, "go", "build", "./...")
	if *long {
		for _, dir := range []string{".", "gateway", "examples", "bench", "deploy", "tools/release", "tools/site"} {
			in(t, filepath.Join(root, dir), nil, "go", "vet", "./...")
		}
		in(t, root, nil, "go", "test", "./internal/repository")
	}

	r, err := newRelease(options{root: root, out: filepath.Join(t.TempDir(), "dist"), version: first})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.goproxy(); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	env := []string{
		"GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off",
		"GOPROXY=file://" + r.file("goproxy") + ",file://" + strings.TrimSpace(command(t, "go", "env", "GOMODCACHE")) + "/cache/download",
	}
	dir := filepath.Join(t.TempDir(), "stranger")
	stranger(t, dir, publicPath)
	in(t, dir, env, "go", "get", publicPath+"@"+first)
	if got := in(t, dir, env, "go", "run", "."); got != "true false\n" {
		t.Errorf("the stranger's program prints %q", got)
	}
	// The gateway requires the library of the same release instead of a folder beside it.
	mod, err := os.ReadFile(r.file(filepath.Join("goproxy", publicPath, "gateway/@v", first+".mod")))
	if err != nil || !strings.Contains(string(mod), publicPath+" "+first) || strings.Contains(string(mod), "replace") {
		t.Errorf("the gateway's go.mod is %s (%v)", mod, err)
	}
}

// old returns the imports of the old path in a module.
func old(t *testing.T, dir string) string {
	t.Helper()
	imports := in(t, dir, nil, "go", "list", "-e", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "./...")
	return strings.Join(regexp.MustCompile(`(?m)^stint(/.*)?$`).FindAllString(imports, -1), " ")
}

// TestREADME imports a clone as the README shows it.
func TestREADME(t *testing.T) {
	parent := t.TempDir()
	if err := copied(filepath.Join(parent, "stint")); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "<!-- before make module-path -->")
	_, block, isBlock := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if !found || !isBlock {
		t.Fatal("the README does not show how to import a clone")
	}
	dir := filepath.Join(parent, "mine")
	stranger(t, dir, "stint")
	if got := in(t, dir, []string{"GOPROXY=off", "GOFLAGS=", "GOWORK=off"}, "bash", "-ec", block+"go run ."); !strings.HasSuffix(got, "true false\n") {
		t.Errorf("the stranger's program prints %q", got)
	}
}
