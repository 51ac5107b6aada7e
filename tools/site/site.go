package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// page is a page of the site.
type page struct {
	from     string // file or folder in the repository, with slashes
	to       string // file in the site
	title    string
	body     template.HTML
	ids      map[string]bool // anchors
	document bool            // written in Markdown: the navigation and the search have it
}

// link is a link between pages, to be checked when all pages are known.
type link struct{ from, to, anchor string }

// section is an entry of the search: the text below a heading.
type section struct {
	URL     string `json:"url"`
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// site collects pages.
type site struct {
	root     string
	pages    []*page
	byFrom   map[string]*page
	pictures map[string]bool
	links    []link
	sections []section
	faults   []error
}

func newSite(root string) *site {
	return &site{root: root, byFrom: map[string]*page{}, pictures: map[string]bool{}}
}

// build writes the site into a folder.
func (s *site) build(out string) error {
	names := []string{"README.md"}
	docs, err := filepath.Glob(filepath.Join(s.root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, name := range docs {
		names = append(names, "docs/"+filepath.Base(name))
	}
	for _, name := range append(names, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md") {
		s.add(name)
	}
	for i := 0; i < len(s.pages); i++ { // reading a page adds the pages that it links to
		if err := s.read(s.pages[i]); err != nil {
			s.faults = append(s.faults, fmt.Errorf("%s: %w", s.pages[i].from, err))
		}
	}
	for _, l := range s.links {
		if target := s.byFrom[l.to]; target.document && l.anchor != "" && !target.ids[l.anchor] {
			s.faults = append(s.faults, fmt.Errorf("%s: %s has no heading #%s", l.from, l.to, l.anchor))
		}
	}
	if err := errors.Join(s.faults...); err != nil {
		return err
	}
	return s.write(out)
}

// add returns the page of a file or folder in the repository, which it reads later if it is new.
func (s *site) add(from string) *page {
	if p := s.byFrom[from]; p != nil {
		return p
	}
	p := &page{from: from, ids: map[string]bool{}, document: strings.HasSuffix(from, ".md")}
	switch base := path.Base(from); {
	case base == "README.md":
		p.to = path.Join(path.Dir(from), "index.html")
	case p.document:
		p.to = strings.TrimSuffix(from, ".md") + ".html"
	case s.isFolder(from):
		p.to = path.Join(from, "index.html")
	default:
		p.to = from + ".html"
	}
	s.pages, s.byFrom[from] = append(s.pages, p), p
	return p
}

func (s *site) file(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

func (s *site) isFolder(name string) bool {
	info, err := os.Stat(s.file(name))
	return err == nil && info.IsDir()
}

func (s *site) read(p *page) error {
	switch {
	case p.document:
		return s.readMarkdown(p)
	case s.isFolder(p.from):
		return s.readFolder(p)
	}
	return s.readSource(p)
}

// entry is a line of the navigation.
type entry struct {
	URL, Title string
	Here       bool
}

// navigation returns the entries of the navigation as a page shows them: the README, then its
// documents in the order in which it links to them, then the others.
func (s *site) navigation(at *page) []entry {
	var order []*page
	add := func(p *page) {
		if p.document && (path.Dir(p.from) == "docs" || path.Dir(p.from) == ".") && !slices.Contains(order, p) {
			order = append(order, p)
		}
	}
	add(s.byFrom["README.md"])
	for _, l := range s.links {
		if l.from == "README.md" && path.Dir(l.to) == "docs" {
			add(s.byFrom[l.to])
		}
	}
	for _, p := range s.pages {
		add(p)
	}
	var all []entry
	for _, p := range order {
		all = append(all, entry{relative(at.to, p.to), p.title, p == at})
	}
	return all
}

// write writes all files.
func (s *site) write(out string) error {
	for _, p := range s.pages {
		var b bytes.Buffer
		err := layout.Execute(&b, map[string]any{
			"Title": p.title, "Body": p.body, "Root": strings.Repeat("../", strings.Count(p.to, "/")), "Navigation": s.navigation(p),
		})
		if err != nil {
			return err
		}
		if err := put(out, p.to, b.Bytes()); err != nil {
			return err
		}
	}
	for name := range s.pictures {
		data, err := os.ReadFile(s.file(name))
		if err != nil {
			return err
		}
		if err := put(out, name, data); err != nil {
			return err
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		data, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := put(out, name, data); err != nil {
			return err
		}
	}
	index, err := json.Marshal(s.sections)
	if err != nil {
		return err
	}
	// It is a script, because a page that was opened as a file may not fetch JSON.
	return put(out, "search-index.js", slices.Concat([]byte("window.searchIndex = "), index, []byte(";\n")))
}

// put writes a file below a folder.
func put(out, name string, data []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// relative returns the URL of a file of the site in a page of it.
func relative(at, to string) string {
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(at)), filepath.FromSlash(to))
	if err != nil { // both are relative to the site
		panic(err)
	}
	return filepath.ToSlash(rel)
}
