package rule

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one rule file: its name, for messages, and its bytes.
type Source struct {
	Name string
	Data []byte

	// Folder is where files are looked for that the rules name, lists and keys. "":
	// rules that name files are refused.
	Folder string

	// Merge lets the file add descriptors to a domain that an earlier one has begun.
	// Otherwise a domain stands in one file.
	Merge bool
}

// Parse compiles rule files to a table. On any fault it returns no table and an
// [*Errors] with every fault of every file. Nothing but the bytes is read, unless a
// source has a Folder.
func Parse(sources ...Source) (*Table, error) {
	c := newCompiler()
	for _, src := range sources {
		c.file(src)
	}
	c.errors.Files = c.names()
	if err := c.errors.orNil(); err != nil {
		return nil, err
	}
	return c.finish(hashOf(slices.Concat(sources, c.files))), nil
}

// Load reads files and folders and parses them as [Parse] does. Of a folder it
// takes every *.yaml and *.yml below it, in the order of their names, but for rule
// tests (*_test.yaml) and names that begin with a dot. Links are followed, and what
// is reached twice is read once, so a mounted Kubernetes volume can be named as it
// stands.
func Load(paths ...string) (*Table, error) { return load(paths, false) }

// LoadMerged is Load where several files may hold descriptors of one domain, see
// Source.Merge.
func LoadMerged(paths ...string) (*Table, error) { return load(paths, true) }

func load(paths []string, merge bool) (*Table, error) {
	f := &finder{seen: map[string]bool{}, folders: map[string]bool{}}
	for _, path := range paths {
		f.found = false
		f.add(path, true)
		if !f.found {
			f.fail(path, "no rule file here", "name a file, or a folder that holds *.yaml or *.yml files")
		}
	}
	if err := f.errors.orNil(); err != nil {
		return nil, err
	}
	for i := range f.sources {
		f.sources[i].Merge = merge
	}
	return Parse(f.sources...)
}

// finder collects the rule files of a call of Load.
type finder struct {
	sources []Source
	seen    map[string]bool // real paths
	folders map[string]bool // real paths of those that we are in
	found   bool            // a rule file, or a reason why there is none
	errors  Errors
}

func (f *finder) fail(path, problem, hint string) {
	f.found = true
	f.errors.List = append(f.errors.List, &Error{File: path, Problem: problem, Hint: hint})
}

// add takes a file, or all rule files of a folder. named says that the user wrote
// the path, rather than that a folder holds it.
func (f *finder) add(path string, named bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		f.fail(path, "cannot find it: "+reason(err), "check the path and what links point to")
		return
	}
	info, err := os.Stat(real)
	if err != nil {
		f.fail(path, "cannot read it: "+reason(err), "check the permissions")
		return
	}
	if abs, err := filepath.Abs(real); err == nil {
		real = abs
	}
	switch {
	case info.IsDir():
		if !f.folders[real] {
			f.folders[real] = true
			f.folder(path)
			delete(f.folders, real)
		}
	case !named && (!isRuleFile(path) || !info.Mode().IsRegular()):
	case f.seen[real]:
		f.found = true
	default:
		f.found = true
		f.seen[real] = true
		data, err := os.ReadFile(path)
		if err != nil {
			f.fail(path, "cannot read it: "+reason(err), "check the permissions")
			return
		}
		f.sources = append(f.sources, Source{Name: path, Data: data, Folder: filepath.Dir(path)})
	}
}

func (f *finder) folder(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		f.fail(path, "cannot read the folder: "+reason(err), "check the permissions")
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			f.add(filepath.Join(path, e.Name()), false)
		}
	}
}

func isRuleFile(path string) bool {
	ext := filepath.Ext(path)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasSuffix(strings.TrimSuffix(path, ext), "_test")
}

// reason returns what the system said, without the path, which stands in front.
func reason(err error) string {
	if pe, ok := err.(*os.PathError); ok { //nolint:errorlint // os returns it unwrapped
		return pe.Err.Error()
	}
	return fmt.Sprint(err)
}
