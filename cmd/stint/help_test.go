package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpWidth reads the help of all commands: no line is wider than a terminal of 100
// columns.
func TestHelpWidth(t *testing.T) {
	names := []string{""}
	for _, c := range commands() {
		names = append(names, c.name)
	}
	for _, name := range names {
		var out bytes.Buffer
		if err := help(&out, strings.Fields(name)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > helpWidth {
				t.Errorf("stint help %s: %d columns: %s", name, width, line)
			}
		}
	}
}
