package repository

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// modulePath is the path of the root module.
const modulePath = "stint"

// tree is the repository's source, parsed once for all rules.
type tree struct {
	fsys fs.FS
	fset *token.FileSet
	pkgs []*pkg // in the order of their folders
}

// pkg is a folder with Go files; its external test package is a part of it.
type pkg struct {
	dir    string // relative to the root of the repository; "." for the root itself
	module string // folder of the module it belongs to, "." for the root module
	name   string // "main", or the name that importers use
	files  []*file
}

// file is one Go file.
type file struct {
	path      string
	test      bool
	generated bool
	lines     int // lines of code, without comments and blank lines
	ast       *ast.File
}

// fault is a place where a rule is broken, with the reason for the rule.
type fault string

// load parses all Go files below the root of fsys, except those that Go's tools skip too.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	modules := []string{"."}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // deleted during the walk
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(name); name != "." && (base == "testdata" || strings.ContainsAny(base[:1], "._")) {
			return fs.SkipDir
		}
		if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
			modules = append(modules, name)
		}
		p, err := t.parse(name)
		if err != nil || p == nil {
			return err
		}
		for _, m := range modules {
			if below(name, m) {
				p.module = m // the innermost comes last
			}
		}
		t.pkgs = append(t.pkgs, p)
		return nil
	})
	return t, err
}

// parse reads the Go files of one folder; nil when there are none.
func (t *tree) parse(dir string) (*pkg, error) {
	names, err := fs.Glob(t.fsys, path.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	p := &pkg{dir: dir}
	for _, name := range names {
		src, err := fs.ReadFile(t.fsys, name)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.name = strings.TrimSuffix(parsed.Name.Name, "_test")
		p.files = append(p.files, &file{
			path:      name,
			test:      strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(parsed),
			lines:     codeLines(src),
			ast:       parsed,
		})
	}
	return p, nil
}

// codeLines counts the lines of a Go file without comments and blank lines.
func codeLines(src []byte) int {
	fset := token.NewFileSet()
	f := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // inserted by the scanner
		}
		for i := range strings.Count(text, "\n") + 1 {
			lines[f.Line(pos)+i] = true
		}
	}
}

// text returns a file's content, "" if it does not exist.
func (t *tree) text(name string) string {
	content, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return ""
	}
	return string(content)
}

// at returns a fault with the position pos in front.
func (t *tree) at(pos token.Pos, format string, args ...any) fault {
	where := t.fset.Position(pos)
	return fault(fmt.Sprintf("%s:%d: ", where.Filename, where.Line) + fmt.Sprintf(format, args...))
}

// line returns the line number of pos in its file.
func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// sources returns the files without tests and without generated files.
func (p *pkg) sources() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test || f.generated })
}

// below reports whether dir is parent or below it.
func below(dir, parent string) bool {
	return parent == "." || dir == parent || strings.HasPrefix(dir, parent+"/")
}

// match reports whether dir matches one of the patterns: a folder, "x/*" for the direct subfolders
// of x, or "x/..." for x and everything below it.
func match(dir string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if parent, ok := strings.CutSuffix(p, "/..."); ok {
			return below(dir, parent)
		}
		ok, err := path.Match(p, dir)
		return err == nil && ok
	})
}
