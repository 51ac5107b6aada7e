package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// goldenRecorder is a testing.TB that records how a test ended instead of ending it.
type goldenRecorder struct {
	testing.TB
	failed string
}

func (r *goldenRecorder) Errorf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func (r *goldenRecorder) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }
func (r *goldenRecorder) Fatal(args ...any)                 { r.failed = fmt.Sprint(args...) }

// A different or missing file fails a test; -update corrects it.
func TestCheck(t *testing.T) {
	defer func(before bool) { *update = before }(*update)
	file := filepath.Join(t.TempDir(), "x.want")
	for i, step := range []struct {
		update bool
		got    string
		fails  bool
	}{
		{false, "a", true},
		{true, "a", false},
		{false, "a", false},
		{false, "b", true},
		{true, "b", false},
		{false, "a", true},
		{false, "b\n", true},
		{false, "", true},
		{true, "b\nc\n", false},
		{false, "b\n", true},
		{false, "b\nc\nd", true},
	} {
		*update = step.update
		r := &goldenRecorder{TB: t}
		if CheckGolden(r, file, step.got); (r.failed != "") != step.fails {
			t.Errorf("step %d: %q", i, r.failed)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	r := &goldenRecorder{TB: t}
	if names := GoldenInputs(r, dir+"/*.a"); r.failed == "" {
		t.Errorf("no file is enough: %q", names)
	}
	if err := os.WriteFile(dir+"/x.a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names := GoldenInputs(t, dir+"/*.a"); len(names) != 1 || names[0] != dir+"/x.a" {
		t.Errorf("%q", names)
	}
}
