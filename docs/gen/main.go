// Command gen computes the numbers and pictures of docs/algorithms.md with the
// algorithms themselves, so that they are never wrong.
//
// It writes docs/architecture.svg, docs/img/*.svg, and between the marks
//
//	<!-- generated: NAME -->
//	<!-- end -->
//
// of docs/algorithms.md the table of that name. Run it with `go generate ./docs/...`;
// its test fails when a file is not what it would write.
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

// page is the file that holds the tables.
const page = "algorithms.md"

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
		"architecture.svg": []byte(housePicture(filepath.Join(docs, ".."))),
		"img/traffic.svg":  []byte(trafficPicture()),
	}
	tables := map[string]string{
		"traffic":  trafficTable(),
		"five":     fiveTable(),
		"weighted": weightedTable(),
	}
	for _, l := range lives {
		files["img/"+l.name+".svg"] = []byte(l.picture())
		tables["life "+l.name] = l.table()
	}
	text, err := os.ReadFile(filepath.Join(docs, page))
	if err != nil {
		return nil, err
	}
	filled, err := fill(string(text), tables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	files[page] = []byte(filled)
	return files, nil
}

// fill puts each table between its marks. A table without marks, and marks without
// a table, are errors.
func fill(text string, tables map[string]string) (string, error) {
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
		table, known := tables[name]
		if !known || !closed {
			return "", fmt.Errorf("mark %q: no such table, or no %s behind it", name, shut)
		}
		fmt.Fprintf(&b, "%s%s -->\n%s%s", open, name, table, shut)
		filled++
		text = after
	}
	if filled != len(tables) {
		return "", fmt.Errorf("%d tables have marks, want %d", filled, len(tables))
	}
	return b.String(), nil
}
