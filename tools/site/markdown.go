package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// reader reads a document: it sets anchors of headings, rewrites links and collects the text for
// the search.
type reader struct {
	s       *site
	p       *page
	source  []byte
	section section
	words   strings.Builder
}

// readMarkdown renders a document.
func (s *site) readMarkdown(p *page) error {
	source, err := os.ReadFile(s.file(p.from))
	if err != nil {
		return err
	}
	doc := markdown.Parser().Parse(text.NewReader(source))
	r := reader{s: s, p: p, source: source, section: section{URL: p.to, Page: p.from}}
	if err := ast.Walk(doc, r.visit); err != nil {
		return err
	}
	r.endSection()
	p.title = cmp.Or(p.title, p.from)
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, doc); err != nil {
		return err
	}
	p.body = template.HTML(b.String()) // goldmark escapes, and leaves raw HTML out
	return nil
}

// visit handles a node of a document.
func (r *reader) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.Link:
		to, err := r.rewrite(string(n.Destination))
		n.Destination = []byte(to)
		return ast.WalkContinue, err
	case *ast.Image:
		return ast.WalkContinue, r.picture(string(n.Destination))
	case *ast.RawHTML:
		return ast.WalkContinue, r.comment(string(n.Segments.Value(r.source)))
	case *ast.HTMLBlock:
		return ast.WalkContinue, r.comment(string(n.Lines().Value(r.source)))
	case *ast.Text:
		r.words.Write(n.Value(r.source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			r.words.WriteByte(' ')
		}
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		r.words.WriteByte(' ')
		r.words.Write(n.Lines().Value(r.source))
	default:
		if n.Type() == ast.TypeBlock {
			r.words.WriteByte(' ')
		}
	}
	return ast.WalkContinue, nil
}

// comment returns an error unless HTML in a document is a comment, because the site leaves it out.
func (r *reader) comment(html string) error {
	if strings.HasPrefix(strings.TrimSpace(html), "<!--") {
		return nil
	}
	return fmt.Errorf("write Markdown instead of %q", html)
}

// heading ends a section of the search and begins the next one.
func (r *reader) heading(n *ast.Heading) {
	r.endSection()
	title := plain(n, r.source)
	if r.p.title == "" {
		r.p.title = title
	}
	id := slug(title)
	for i := 1; r.p.ids[id]; i++ {
		id = slug(title) + "-" + strconv.Itoa(i)
	}
	r.p.ids[id] = true
	n.SetAttributeString("id", []byte(id))
	r.section = section{URL: r.p.to + "#" + id, Page: r.p.title, Heading: title}
}

func (r *reader) endSection() {
	r.section.Text = strings.Join(strings.Fields(r.words.String()), " ")
	if r.section.Text != "" || r.section.Heading != "" {
		r.s.sections = append(r.s.sections, r.section)
	}
	r.words.Reset()
}

// plain returns the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if t, is := child.(*ast.Text); is {
			b.Write(t.Value(source))
		} else {
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

// slug returns the anchor of a heading as GitHub makes it, because links are written for it.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// rewrite returns the link of the site for a link of a document. It adds the page that it leads to.
func (r *reader) rewrite(to string) (string, error) {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() {
		return to, err
	}
	from := r.p.from
	if u.Path != "" {
		from = path.Join(path.Dir(r.p.from), u.Path)
	}
	info, err := os.Stat(r.s.file(from))
	if err != nil || strings.HasPrefix(from, "../") {
		return "", fmt.Errorf("the link %s leads to no file of the repository", to)
	}
	if isPicture(from) {
		r.s.pictures[from] = true
		return relative(r.p.to, from), nil
	}
	if readme := path.Join(from, "README.md"); info.IsDir() {
		if _, err := os.Stat(r.s.file(readme)); err == nil {
			from = readme
		}
	}
	target := r.s.add(from)
	r.s.links = append(r.s.links, link{r.p.from, from, u.Fragment})
	result := url.URL{Path: relative(r.p.to, target.to)}
	if target.document {
		result.Fragment = u.Fragment
	}
	return result.String(), nil
}

func isPicture(name string) bool {
	return strings.HasSuffix(name, ".svg") || strings.HasSuffix(name, ".png")
}

// picture adds a picture, whose place in the site is that in the repository.
func (r *reader) picture(to string) error {
	from := path.Join(path.Dir(r.p.from), to)
	if !isPicture(from) {
		return fmt.Errorf("%s is no picture of the repository", to)
	}
	if _, err := os.Stat(r.s.file(from)); err != nil {
		return err
	}
	r.s.pictures[from] = true
	return nil
}
