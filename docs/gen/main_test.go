package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGenerated fails when a checked-in table or picture is not what the
// algorithms say now.
func TestGenerated(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || string(got) != string(want) {
			t.Errorf("docs/%s is not what docs/gen makes of it (%v); run: go generate ./docs/...", name, err)
		}
	}
	pictures, err := filepath.Glob("../img/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pictures {
		if files["img/"+filepath.Base(name)] == nil {
			t.Errorf("%s is a picture that nothing draws; delete it", name)
		}
	}
}

// TestFill refuses marks that nothing fills.
func TestFill(t *testing.T) {
	tables := map[string]string{"a": "| 1 |\n"}
	for _, row := range []struct{ name, text, want string }{
		{"filled", "x\n<!-- generated: a -->\nold\n<!-- end -->\ny", "x\n<!-- generated: a -->\n| 1 |\n<!-- end -->\ny"},
		{"unknown name", "<!-- generated: b -->\n<!-- end -->", ""},
		{"never closed", "<!-- generated: a -->\n", ""},
		{"no marks", "text", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := fill(row.text, tables)
			if got != row.want || (err == nil) != (row.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, row.want)
			}
		})
	}
}
