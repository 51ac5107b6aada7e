package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated fails if a checked-in table is not up to date, or if a picture has other words or
// numbers. Its drawing may differ.
func TestGenerated(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		is, should := string(got), string(want)
		if filepath.Ext(name) == ".svg" {
			is, should = words(t, got), words(t, want)
		}
		if err != nil || is != should {
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

// words returns the text in a picture, a line for each element.
func words(t *testing.T, picture []byte) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return all.String()
		case err != nil:
			t.Fatal(err)
		}
		if start, is := token.(xml.StartElement); is && start.Name.Local == "style" {
			if err := d.Skip(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if text, is := token.(xml.CharData); is && len(bytes.TrimSpace(text)) > 0 {
			all.Write(append(bytes.TrimSpace(text), '\n'))
		}
	}
}

// TestFill: fill refuses marks without a text.
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
