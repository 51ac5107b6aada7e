package mutants

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

var only = flag.String("mutants.only", "", "apply only mutants whose name has this text")
var tests = flag.String("mutants.tests", histories, "tests")

// mutant is a change of the code that removes one guard.
type mutant struct {
	name     string // what the code no longer does
	file     string // below the root of the module
	old, new string // old occurs once
	many     bool   // only the histories of the long form show it
}

// TestMutants: without any of the guards that docs/coordination-proof.md names, some history of the
// simulator fails: for nearly all of them one of the histories of the short form, which are the 20
// of make check.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../../..")
	testkit.Must(t, err)
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(root, m.file))
			testkit.Must(t, err)
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s has %d times %q, want once", m.file, n, m.old)
			}
			began := time.Now()
			binary := m.build(t, root, source)
			built := time.Since(began)
			test := exec.CommandContext(t.Context(), binary, "-test.run", *tests, "-test.timeout", "5m", "-test.failfast")
			if !m.many {
				test.Args = append(test.Args, "-test.short")
			}
			test.Dir = filepath.Join(root, "fleet/sim")
			out, err := test.CombinedOutput()
			if err == nil {
				t.Errorf("no history shows it")
			}
			var failed []string
			for line := range strings.Lines(string(out)) {
				if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
					failed = append(failed, strings.TrimSpace(name))
				}
			}
			if err != nil && len(failed) == 0 {
				t.Errorf("%v: %s", err, out[:min(len(out), 2000)])
			}
			t.Logf("detected by %v; built in %v, ran in %v", failed, built.Round(time.Millisecond), (time.Since(began) - built).Round(time.Millisecond))
		})
	}
}

// histories are the tests of package sim that bound what passes.
const histories = "^Test(RandomFaults|Guards|KeptAfterLoss|Divided|AsksAgain|Alone)$"

// build builds the tests of package sim with the mutant, and returns the path of the binary.
func (m *mutant) build(t *testing.T, root string, source []byte) string {
	dir := t.TempDir()
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	testkit.Must(t, os.WriteFile(changed, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o644))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): changed}})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(overlay, text, 0o644))
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./fleet/sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

func TestNames(t *testing.T) {
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
