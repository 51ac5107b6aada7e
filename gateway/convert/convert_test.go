package convert_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/gateway/convert"
	"stint/internal/testkit"
	"stint/rule/rulefile"
)

// Each good Caddyfile has beside it what it becomes; rulefile accepts its rule files.
func TestGood(t *testing.T) {
	for _, name := range testkit.GoldenInputs(t, "testdata/good/*.caddyfile") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			testkit.Must(t, err)
			store := "memory"
			if strings.Contains(string(text), "distributed") {
				store = "redis://127.0.0.1:6379"
			}
			got, err := convert.Convert(convert.Source{Text: text, File: "Caddyfile", Rules: "rules", Store: store})
			testkit.Must(t, err)
			var all strings.Builder
			all.Write(got.Caddyfile)
			var sources []rulefile.Source
			for _, file := range slices.Sorted(maps.Keys(got.Rules)) {
				fmt.Fprintf(&all, "-- %s\n%s", file, got.Rules[file])
				sources = append(sources, rulefile.Source{Name: file, Data: got.Rules[file]})
			}
			for _, n := range got.Notes {
				fmt.Fprintf(&all, "-- note: %s\n", n)
			}
			testkit.CheckGolden(t, strings.TrimSuffix(name, ".caddyfile")+".txt", all.String())
			if _, err := rulefile.Parse(sources...); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each bad Caddyfile has beside it the faults, and nothing is converted.
func TestBad(t *testing.T) {
	for _, name := range testkit.GoldenInputs(t, "testdata/bad/*.caddyfile") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			testkit.Must(t, err)
			got, err := convert.Convert(convert.Source{Text: text, File: "Caddyfile", Rules: "rules", Store: "memory"})
			var faults convert.Faults
			if !errors.As(err, &faults) || got.Caddyfile != nil || got.Rules != nil {
				t.Fatalf("%v, %s", err, got.Caddyfile)
			}
			testkit.CheckGolden(t, strings.TrimSuffix(name, ".caddyfile")+".txt", err.Error()+"\n")
		})
	}
}

// A conversion that fails leaves no file.
func TestNothingHalf(t *testing.T) {
	dir := t.TempDir()
	files := convert.Files{Caddyfile: filepath.Join(dir, "Caddyfile"), Store: "memory"}
	for _, text := range []string{
		":1 {\n\trate_limit {\n\t\tzone a {\n\t\t\tevents 1\n\t\t}\n\t}\n}\n",                                  // no window
		":1 {\n\tunknown_word\n\trate_limit {\n\t\tzone a {\n\t\t\tevents 1\n\t\t\twindow 1s\n\t\t}\n\t}\n}\n", // Caddy refuses it
	} {
		testkit.Must(t, os.WriteFile(files.Caddyfile, []byte(text), 0o600))
		var out, notes strings.Builder
		err := files.Convert(&out, &notes)
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err == nil || len(left) != 1 || out.Len() > 0 {
			t.Errorf("%v, files %v, output %s", err, left, &out)
		}
	}
}
