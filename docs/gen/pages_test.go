package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/rule"
)

// pages returns the documents by name, the README among them.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// TestLinks follows the links of all documents to files of this repository, and to
// headings in them.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if heading == "" {
				continue
			}
			page, err := os.ReadFile(target)
			if err != nil || !headings(string(page))[heading] {
				t.Errorf("%s links to %s, but the page has no such heading", name, m[1])
			}
		}
	}
}

// headings returns the anchors that a page's headings get.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return anchors
}

// TestRuleFiles reads every rule file and rule test that the documents show.
func TestRuleFiles(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	found := 0
	for name, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			found++
			source := rule.Source{Name: name, Data: []byte(m[1])}
			_, err := rule.Parse(source)
			if strings.HasPrefix(m[1], "tests:") {
				_, err = rule.ParseTests(source)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no document shows a rule file")
	}
}
