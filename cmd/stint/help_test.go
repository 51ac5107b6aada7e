package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"stint/cmd/stint/cli"
)

// TestHelpColumns checks that the summaries of all commands begin in the same column.
func TestHelpColumns(t *testing.T) {
	var out bytes.Buffer
	printHelp(&out)
	for _, c := range commands() {
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "  stint "+c.Name+" ") && strings.Index(line, " "+c.Summary) != strings.Index(out.String(), " explain a command")-strings.LastIndex(out.String(), "  stint help") {
				t.Errorf("the summary stands in another column than the last one: %s", line)
			}
		}
	}
}

// TestHelpWidth checks that no line of help is wider than a terminal of 100 columns.
func TestHelpWidth(t *testing.T) {
	names := []string{""}
	for _, c := range commands() {
		names = append(names, c.Name)
	}
	for _, name := range names {
		var out bytes.Buffer
		if err := help(&out, strings.Fields(name)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > cli.HelpWidth {
				t.Errorf("stint help %s: %d columns: %s", name, width, line)
			}
		}
	}
}
