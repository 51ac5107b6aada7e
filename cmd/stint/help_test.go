package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpColumns checks that the summaries of all commands begin in the same column.
func TestHelpColumns(t *testing.T) {
	var out bytes.Buffer
	printHelp(&out)
	for _, c := range commands() {
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "  stint "+c.name+" ") && strings.Index(line, " "+c.summary) != strings.Index(out.String(), " explain a command")-strings.LastIndex(out.String(), "  stint help") {
				t.Errorf("the summary stands in another column than the last one: %s", line)
			}
		}
	}
}

// TestHelpWidth checks that no line of help is wider than a terminal of 100 columns.
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
