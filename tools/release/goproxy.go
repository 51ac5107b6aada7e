package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published are the folders of the modules that others import.
var published = []string{".", "gateway"}

// goproxy writes the modules as a proxy of files, for GOPROXY=file://DIST/goproxy. Go refuses a
// module without a dot in its name, so before make module-path there is none.
func (r *release) goproxy() error {
	first, _, _ := strings.Cut(r.modulePath, "/")
	if !strings.Contains(first, ".") {
		r.progress("no module proxy: go get refuses the path %s; make module-path moves the module", r.modulePath)
		return nil
	}
	names, err := r.sources()
	if err != nil {
		return err
	}
	for _, dir := range published {
		if err := r.publish(dir, names); err != nil {
			return fmt.Errorf("module %s: %w", dir, err)
		}
	}
	return nil
}

// sources returns the files of the repository, relative to its root: those of git where it is used,
// else all but hidden ones.
func (r *release) sources() ([]string, error) {
	if _, err := os.Stat(filepath.Join(r.root, ".git")); err == nil {
		out, err := r.output(r.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		if err != nil {
			return nil, err
		}
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		return slices.DeleteFunc(names, func(name string) bool {
			info, err := os.Lstat(filepath.Join(r.root, filepath.FromSlash(name)))
			return err != nil || !info.Mode().IsRegular()
		}), nil
	}
	var names []string
	err := filepath.WalkDir(r.root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file == r.out || file != r.root && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(r.root, file)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err
}

// publish writes one module into the proxy.
func (r *release) publish(dir string, names []string) error {
	mod, err := r.publicMod(dir)
	if err != nil {
		return err
	}
	version := module.Version{Path: modfile.ModulePath(mod), Version: r.version}
	var all []zip.File
	for _, name := range names {
		if inside, is := within(name, dir); is && owner(name, names) == dir {
			f := sourceFile{name: inside, path: filepath.Join(r.root, filepath.FromSlash(name))}
			if inside == "go.mod" {
				f.data = mod
			}
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b zip.File) int { return strings.Compare(a.Path(), b.Path()) })
	escaped, err := module.EscapePath(version.Path)
	if err != nil {
		return err
	}
	to := r.file(filepath.Join("goproxy", filepath.FromSlash(escaped), "@v"))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, version, all); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{r.version, r.date})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(r.version + "\n"), r.version + ".info": info, r.version + ".mod": mod, r.version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// publicMod returns the go.mod of a module as others read it: it requires this release of our
// modules instead of a folder beside it.
func (r *release) publicMod(dir string) ([]byte, error) {
	name := filepath.Join(r.root, filepath.FromSlash(dir), "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	for _, replace := range slices.Clone(f.Replace) {
		if replace.New.Version != "" {
			continue
		}
		replaced := replace.Old // DropReplace clears it
		if !below(replaced.Path, r.modulePath) {
			return nil, fmt.Errorf("%s: %s is replaced by a folder, which others do not have", name, replaced.Path)
		}
		if err := f.DropReplace(replaced.Path, replaced.Version); err != nil {
			return nil, err
		}
		if err := f.AddRequire(replaced.Path, r.version); err != nil {
			return nil, err
		}
	}
	f.Cleanup()
	return f.Format()
}

// below reports whether a path is another or below it.
func below(name, parent string) bool {
	return parent == "." || name == parent || strings.HasPrefix(name, parent+"/")
}

// within returns a name relative to a folder, and whether it is in it.
func within(name, dir string) (string, bool) {
	if dir == "." {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// owner returns the folder of the module that a file belongs to.
func owner(name string, names []string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(names, dir+"/go.mod") {
			return dir
		}
	}
	return "."
}

// sourceFile is a file of a module's zip.
type sourceFile struct {
	name, path string
	data       []byte // instead of the content of path, unless nil
}

// Path returns the name in the module.
func (f sourceFile) Path() string { return f.name }

// Lstat returns what kind of file it is, and its size.
func (f sourceFile) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(f.path)
	if err != nil || f.data == nil {
		return info, err
	}
	return sized{info, int64(len(f.data))}, nil
}

// Open opens the content.
func (f sourceFile) Open() (io.ReadCloser, error) {
	if f.data == nil {
		return os.Open(f.path)
	}
	return io.NopCloser(bytes.NewReader(f.data)), nil
}

// sized is the information of a file with another size.
type sized struct {
	os.FileInfo
	size int64
}

// Size returns the size.
func (s sized) Size() int64 { return s.size }
