package main

import (
	"fmt"
	"html"
	"html/template"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

// maxSource is the most bytes of a file that a page shows.
const maxSource = 1 << 20

// readSource shows a file as it is.
func (s *site) readSource(p *page) error {
	data, err := os.ReadFile(s.file(p.from))
	if err != nil {
		return err
	}
	if !isSource(data) {
		return fmt.Errorf("the file is longer than %d bytes or no text; do not link to it", maxSource)
	}
	p.title = p.from
	p.body = template.HTML("<h1>" + html.EscapeString(p.from) + "</h1>\n<pre><code>" + html.EscapeString(string(data)) + "</code></pre>\n") // it is escaped
	return nil
}

func isSource(data []byte) bool {
	return len(data) <= maxSource && utf8.Valid(data)
}

// readFolder lists the files of a folder and links to those that a page can show.
func (s *site) readFolder(p *page) error {
	entries, err := os.ReadDir(s.file(p.from))
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", html.EscapeString(p.from))
	for _, e := range entries {
		name, label := path.Join(p.from, e.Name()), html.EscapeString(e.Name())
		switch data, err := os.ReadFile(s.file(name)); {
		case e.IsDir():
			fmt.Fprintf(&b, "<li>%s/</li>\n", label)
		case err != nil:
			return err
		case isPicture(name) || strings.HasSuffix(name, ".md") || !isSource(data):
			fmt.Fprintf(&b, "<li>%s</li>\n", label)
		default:
			fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", html.EscapeString(relative(p.to, s.add(name).to)), label)
		}
	}
	p.title = p.from
	p.body = template.HTML(b.String() + "</ul>\n") // names are escaped
	return nil
}
