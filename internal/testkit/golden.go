package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected files from what the code says now; read them before you commit")

// CheckGolden compares got with a file in the test's folder. With -update it writes the file
// instead.
func CheckGolden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	Must(t, err)
	if got != string(want) {
		is, was := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
		n := 0
		for is[n] == was[n] { // the texts differ, so the loop ends in one of the lines
			n++
		}
		t.Errorf("%s, line %d: got\n%q\nwant\n%q\nIf that is right run with -update, and look at the whole difference.", file, n+1, is[n], was[n])
	}
}

// GoldenInputs returns the files that match a pattern, at least one.
func GoldenInputs(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no file %s (%v)", pattern, err)
	}
	return names
}
