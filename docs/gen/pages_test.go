package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/rule/catalog/book"
	"stint/rule/rulefile"
	"stint/rule/ruletest"
)

// pages returns the documents by name, with the README.
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

// headings returns the anchors of a page's headings.
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

// TestYAML reads every rule file, rule test and config file in the documents.
func TestYAML(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	found := 0
	for name, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			found++
			if err := readYAML(name, m[1]); err != nil {
				t.Errorf("%v\n%s", err, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no document shows a rule file")
	}
}

// readYAML reads a file as the type that its words indicate.
func readYAML(name, text string) error {
	file := rulefile.Source{Name: name, Data: []byte(text)}
	var err error
	switch lines := "\n" + text; {
	case strings.Contains(lines, "\ndomain:"):
		_, err = rulefile.Parse(file)
	case strings.Contains(lines, "\ntests:"):
		_, err = ruletest.Parse(file)
	case strings.Contains(lines, "\nconfigs:"):
		for _, fault := range book.ReadRules(name, book.RateLimiter4j, strings.NewReader(text)) {
			err = fault
		}
	default:
		_, err = settings.ParseFile(name, []byte(text))
	}
	return err
}

// TestRuleWords checks that all words of the parser, in each place, are in docs/rules.md and in the
// example with all words.
func TestRuleWords(t *testing.T) {
	page := pages(t)["../rules.md"]
	example, err := os.ReadFile("../../examples/rules/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct{ name, file string }{
		{"the file", "domain: a\nqqqq: 1"},
		{"a descriptor", "domain: a\ndescriptors: [{key: k, qqqq: 1}]"},
		{"rate_limit", "domain: a\ndescriptors: [{key: k, rate_limit: {qqqq: 1}}]"},
		{"elastic", "domain: a\ndescriptors: [{key: k, rate_limit: {elastic: {qqqq: 1}}}]"},
		{"denial", "domain: a\ndescriptors: [{key: k, rate_limit: {denial: {qqqq: 1}}}]"},
		{"exempt", "domain: a\nexempt: [{qqqq: 1}]"},
		{"deny", "domain: a\ndeny: [{qqqq: 1}]"},
		{"a list in a file", "domain: a\ndeny: [{cidrs: {qqqq: 1}}]"},
		{"http", "domain: a\nhttp: {qqqq: 1}"},
		{"how paths are read", "domain: a\nhttp: {path: {qqqq: 1}}"},
		{"an element of http.rate_limits", "domain: a\nhttp: {rate_limits: [{qqqq: 1}]}"},
		{"cost", "domain: a\nhttp: {rate_limits: [{cost: {qqqq: 1}}]}"},
		{"actions", "domain: a\nhttp: {rate_limits: [{actions: [{qqqq: {}}]}]}"},
		{"masked_remote_address", "domain: a\nhttp: {rate_limits: [{actions: [{masked_remote_address: {qqqq: 1}}]}]}"},
		{"request_headers", "domain: a\nhttp: {rate_limits: [{actions: [{request_headers: {qqqq: 1}}]}]}"},
		{"query_parameters", "domain: a\nhttp: {rate_limits: [{actions: [{query_parameters: {qqqq: 1}}]}]}"},
		{"generic_key", "domain: a\nhttp: {rate_limits: [{actions: [{generic_key: {qqqq: 1}}]}]}"},
		{"header_value_match", "domain: a\nhttp: {rate_limits: [{actions: [{header_value_match: {qqqq: 1}}]}]}"},
		{"cookie", "domain: a\nhttp: {rate_limits: [{actions: [{cookie: {qqqq: 1}}]}]}"},
		{"api_key", "domain: a\nhttp: {rate_limits: [{actions: [{api_key: {qqqq: 1}}]}]}"},
		{"basic_auth_user", "domain: a\nhttp: {rate_limits: [{actions: [{basic_auth_user: {qqqq: 1}}]}]}"},
		{"tls_client_certificate", "domain: a\nhttp: {rate_limits: [{actions: [{tls_client_certificate: {qqqq: 1}}]}]}"},
		{"bearer_claim", "domain: a\nhttp: {rate_limits: [{actions: [{bearer_claim: {qqqq: 1}}]}]}"},
		{"identity", "domain: a\nhttp: {rate_limits: [{actions: [{identity: {qqqq: 1}}]}]}"},
		{"device", "domain: a\nhttp: {rate_limits: [{actions: [{device: {qqqq: 1}}]}]}"},
		{"a device's cookie", "domain: a\nhttp: {rate_limits: [{actions: [{device: {cookie: {qqqq: 1}}}]}]}"},
		{"route", "domain: a\nhttp: {rate_limits: [{actions: [{route: {qqqq: 1}}]}]}"},
	} {
		t.Run(place.name, func(t *testing.T) {
			_, err := rulefile.Parse(rulefile.Source{Name: "file", Data: []byte(place.file)})
			_, known, found := strings.Cut(fmt.Sprint(err), "known here are ")
			if !found {
				t.Fatalf("the parser names no words: %v", err)
			}
			known, _, _ = strings.Cut(known, "\n")
			for word := range strings.SplitSeq(known, ", ") {
				if !strings.Contains(page, "`"+word+"`") {
					t.Errorf("docs/rules.md does not explain %s", word)
				}
				if !strings.Contains(string(example), word+":") {
					t.Errorf("examples/rules/all.yaml does not show %s", word)
				}
			}
		})
	}
}
