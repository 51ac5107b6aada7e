package lease_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// mutant is a change of the code that removes one guard.
type mutant struct {
	name     string // what the code no longer does
	file     string // below the root of the module
	old, new string // old occurs once
	in       string // package whose tests detect it, if no history does; "" for fleet/sim
}

// TestGuardsRemoved: without any of the guards that docs/coordination-proof.md names, some history of
// the simulator fails, one of the short form, which are those of make check. What no history shows is
// found by the tests of the package that has the guard. The test is here because most guards are.
func TestGuardsRemoved(t *testing.T) {
	root, err := filepath.Abs("../..")
	testkit.Must(t, err)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(root, m.file))
			testkit.Must(t, err)
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s has %d times %q, want once", m.file, n, m.old)
			}
			if testing.Short() {
				return // each is built and tested in the long form
			}
			found := ""
			for _, run := range m.runs() {
				if found = m.fails(t, root, source, run); found != "" {
					break
				}
			}
			if found == "" {
				t.Error("no test detects it")
			}
			t.Logf("detected by %s", found)
		})
	}
}

// run is a run of the tests of a package.
type run struct {
	in   string // the package
	args []string
}

// runs returns the tests that may detect a mutant, the fastest first.
func (m *mutant) runs() []run {
	if m.in != "" {
		return []run{{m.in, []string{"-short"}}}
	}
	return []run{
		{"fleet/lease", []string{"-short", "-run=^Test(Guards|Concurrent)$"}},
		{"fleet/sim", []string{"-short", "-run=^Test(RandomFaults|AsksAgain|Divided|KeptAfterLoss|Alone)$"}},
	}
}

// fails runs tests with the mutant and returns the name of the first that fails; "" if none does.
func (m *mutant) fails(t *testing.T, root string, source []byte, run run) string {
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	testkit.Must(t, os.WriteFile(changed, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o644))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): changed}})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(overlay, text, 0o644))
	args := append([]string{"test", "-vet=off", "-failfast", "-overlay", overlay, "./" + run.in}, run.args...)
	test := exec.CommandContext(t.Context(), "go", args...)
	test.Dir = root
	out, err := test.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.TrimSpace(name)
		}
	}
	if err != nil {
		t.Errorf("%v: %s", err, out[:min(len(out), 2000)])
	}
	return ""
}

func TestGuardNames(t *testing.T) {
	var names []string
	for _, m := range mutants {
		if slices.Contains(names, m.name) {
			t.Errorf("two mutants are named %q", m.name)
		}
		names = append(names, m.name)
	}
	if len(names) < 25 {
		t.Errorf("%d mutants, want 25 at least", len(names))
	}
}
