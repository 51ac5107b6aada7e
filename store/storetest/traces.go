package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"stint/store/storetest/model"
)

// traces runs every step table of testdata/traces through Decide.
func traces(t *testing.T, o Options) {
	sections, err := model.LoadTraces(filepath.Join(root(t), "testdata", "traces"))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		t.Run(section.Name, func(t *testing.T) {
			s := start(t, o)
			for _, step := range section.Steps {
				d := s.decide(step.At, step.Take(section.Limit))[0]
				if wrong := step.Check(d); wrong != "" {
					t.Fatalf("line %d: %s", step.Line, wrong)
				}
			}
		})
	}
}

// root returns the folder of the module, seen from the package that is tested.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "traces")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no testdata/traces in any folder above")
		}
		dir = parent
	}
}
