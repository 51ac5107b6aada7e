package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// text is a file that goes into archives and packages beside a program.
type text struct {
	name string // path below the folder of the kind
	data []byte
}

// manual is what a program prints about itself, and the licenses of what is linked into it.
type manual struct {
	pages       []text
	completions map[string][]byte
	licenses    []byte
	links       []link // what all its binaries link, in the order of their names
}

// link is a module that is linked into a program.
type link struct {
	Path, Version, Sum string
	dir                string // its source
}

// shells are the shells for which a program writes completions.
var shells = []string{"bash", "zsh", "fish"}

// describe asks a program for its manual pages and completions, and collects the licenses.
func (r *release) describe(p *program) error {
	binary, err := r.native(p)
	if err != nil {
		return err
	}
	m := &manual{completions: map[string][]byte{}}
	for _, shell := range shells {
		if m.completions[shell], err = r.output(r.work, binary, "completion", shell); err != nil {
			return err
		}
	}
	pages := filepath.Join(r.work, "man-"+p.name)
	write := []string{binary, "man", pages}
	if p.name == "stint-gateway" {
		write = []string{binary, "manpage", "--directory", pages}
	}
	if _, err = r.output(r.work, write...); err != nil {
		return err
	}
	if m.pages, err = readPages(pages); err != nil {
		return err
	}
	if m.links, err = r.linked(p); err != nil {
		return err
	}
	if m.licenses, err = licenses(m.links); err != nil {
		return err
	}
	p.manual = m
	return nil
}

// readPages reads the manual pages of a folder.
func readPages(dir string) ([]text, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var pages []text
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, text{e.Name(), data})
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s: the program wrote no manual page", dir)
	}
	return pages, nil
}

// linked returns the modules of which all binaries of a program consist.
func (r *release) linked(p *program) ([]link, error) {
	found := map[string]link{}
	for _, s := range r.systems {
		info, err := buildinfo.ReadFile(r.binary(p, s))
		if err != nil {
			return nil, err
		}
		for _, d := range info.Deps {
			if d.Replace == nil { // our own modules are replaced by their folders
				found[d.Path] = link{Path: d.Path, Version: d.Version, Sum: d.Sum}
			}
		}
	}
	out, err := r.outputWith([]string{"GOFLAGS=-mod=mod", "GOWORK=off"}, filepath.Join(r.root, p.module), "go", "list", "-m", "-mod=readonly", "-json=Path,Dir", "all")
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := in.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if l, is := found[m.Path]; is {
			l.dir = m.Dir
			found[m.Path] = l
		}
	}
	all := make([]link, 0, len(found))
	for _, l := range found {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b link) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// licenses returns the licenses and notices of modules, one after another. Most of them demand that
// they go with the binary.
func licenses(links []link) ([]byte, error) {
	var b bytes.Buffer
	for _, l := range links {
		names, err := filepath.Glob(filepath.Join(l.dir, "*"))
		if err != nil {
			return nil, err
		}
		n := 0
		for _, name := range names {
			base := strings.ToUpper(filepath.Base(name))
			if !strings.HasPrefix(base, "LICENSE") && !strings.HasPrefix(base, "LICENCE") && !strings.HasPrefix(base, "COPYING") && !strings.HasPrefix(base, "NOTICE") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil { // a folder of licenses, say
				continue
			}
			n++
			fmt.Fprintf(&b, "==== %s %s: %s\n\n%s\n\n", l.Path, l.Version, filepath.Base(name), bytes.TrimSpace(data))
		}
		if n == 0 {
			fmt.Fprintf(&b, "==== %s %s: no license file at the root of its module\n\n", l.Path, l.Version)
		}
	}
	return b.Bytes(), nil
}

// packed compresses a text; the same text gives the same bytes.
func packed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// completionPath returns where a shell looks for the completion of a program, below /usr/share.
func completionPath(shell, name string) string {
	switch shell {
	case "bash":
		return path.Join("bash-completion/completions", name)
	case "zsh":
		return path.Join("zsh/site-functions", "_"+name)
	default:
		return path.Join("fish/vendor_completions.d", name+".fish")
	}
}
