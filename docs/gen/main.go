// Command gen generates tables and pictures of the documents with the code that they describe, so
// that they are always correct.
//
// It writes docs/architecture.svg and docs/img/*.svg. In docs/algorithms.md, docs/check.md and
// docs/replay.md it writes the text NAME between the marks
//
//	<!-- generated: NAME -->
//	<!-- end -->
//
// Run it with `go generate ./docs/...`; its test fails if a file is not up to date.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run . -docs ..

func main() {
	docs := flag.String("docs", "docs", "folder of the documents")
	flag.Parse()
	if err := run(*docs); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes every file that has changed.
func run(docs string) error {
	files, err := generate(docs)
	if err != nil {
		return err
	}
	for name, content := range files {
		target := filepath.Join(docs, name)
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files to write, by name below docs.
func generate(docs string) (map[string][]byte, error) {
	files := map[string][]byte{
		"architecture.svg": []byte(architecturePicture(filepath.Join(docs, ".."))),
		"img/traffic.svg":  []byte(trafficPicture()),
		"img/redis.svg":    []byte(sharedPicture()),
	}
	tables := map[string]string{
		"traffic":  trafficTable(),
		"five":     fiveTable(),
		"weighted": weightedTable(),
	}
	for i := range modes {
		files["img/mode_"+modes[i].name+".svg"] = []byte(modes[i].picture())
	}
	for _, l := range lives {
		files["img/"+l.name+".svg"] = []byte(l.picture())
		tables["life "+l.name] = l.table()
	}
	report, sweep, err := replayReport(filepath.Join(docs, ".."))
	if err != nil {
		return nil, err
	}
	advised, err := replayAdvice(filepath.Join(docs, ".."))
	if err != nil {
		return nil, err
	}
	for page, texts := range map[string]map[string]string{
		"algorithms.md": tables,
		"replay.md":     {"report": report, "sweep": sweep, "advice": advised},

		"coming-from-envoy-ratelimit.md": {"environment": environmentTable()},
		"check.md":                       {"findings": findingsTable()},
	} {
		text, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			return nil, err
		}
		filled, err := fill(string(text), texts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
		files[page] = []byte(filled)
	}
	return files, nil
}

// fill puts each text between its marks. It returns an error for a text without marks, and for
// marks without a text.
func fill(text string, texts map[string]string) (string, error) {
	const open, shut = "<!-- generated: ", "<!-- end -->"
	var b strings.Builder
	filled := 0
	for {
		before, rest, found := strings.Cut(text, open)
		b.WriteString(before)
		if !found {
			break
		}
		name, rest, _ := strings.Cut(rest, " -->")
		_, after, closed := strings.Cut(rest, shut)
		content, known := texts[name]
		if !known || !closed {
			return "", fmt.Errorf("mark %q: no such text, or no %s behind it", name, shut)
		}
		fmt.Fprintf(&b, "%s%s -->\n%s%s", open, name, content, shut)
		filled++
		text = after
	}
	if filled != len(texts) {
		return "", fmt.Errorf("%d texts have marks, want %d", filled, len(texts))
	}
	return b.String(), nil
}
