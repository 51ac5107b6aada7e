package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// places are the folders to watch for a set of paths: for each folder the names in it that matter.
// A name of "*" means every file of rules, "**" every name.
type places map[string][]string

// finder returns the places for paths. It returns an error if some are missing, because no file
// descriptor was left to read a folder.
type finder func(paths []string) (places, error)

// watchPlaces returns the folders in which changes of the files and folders at paths are visible.
//
// A path may change in each of its parts. Editors replace its last part. Each part may be a
// symbolic link that is swapped, which is how Kubernetes changes a mounted volume (FILE ->
// ..data/FILE, ..data -> a folder with a date). So for every link on the path, its folder is
// watched. If a part is missing, its folder is watched until it appears. Each of these folders may itself be
// replaced by another one of its name, so the folder above it is watched too. A replacement of one further above
// is not seen.
func watchPlaces(paths []string) (places, error) {
	p := make(places)
	var short error
	for _, name := range paths {
		if abs, err := filepath.Abs(name); err == nil {
			short = errors.Join(short, p.follow(abs))
		}
	}
	return p, short
}

// watchTrees is watchPlaces for every name in the folders and their subfolders.
func watchTrees(paths []string) (places, error) {
	p := make(places)
	var short error
	for _, name := range paths {
		if abs, err := filepath.Abs(name); err == nil {
			short = errors.Join(short, p.followTree(abs))
		}
	}
	return p, short
}

// shortage returns the error of reading a folder if all file descriptors of the process or the
// machine are in use. Other errors mean that the path is no folder or is gone.
func shortage(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return err
	}
	return nil
}

// followTree adds the places of an absolute path and of everything below it.
func (p places) followTree(path string) error {
	end, found := p.resolve(path)
	if !found || slices.Contains(p[end], "**") {
		return nil
	}
	entries, err := os.ReadDir(end)
	if err != nil {
		return shortage(err)
	}
	p.add(end, "**")
	var short error
	for _, e := range entries {
		if e.IsDir() || e.Type()&os.ModeSymlink != 0 {
			short = errors.Join(short, p.followTree(filepath.Join(end, e.Name())))
		}
	}
	return short
}

// addWithFolder adds a name in a folder, and the folder in the one above it.
func (p places) addWithFolder(dir, name string) {
	p.add(dir, name)
	if above := filepath.Dir(dir); above != dir {
		p.add(above, filepath.Base(dir))
	}
}

func (p places) add(dir, name string) {
	if !slices.Contains(p[dir], name) {
		p[dir] = append(p[dir], name)
	}
}

// matter reports whether a change of the file called name matters.
func (p places) matter(name string) bool {
	base := filepath.Base(name)
	for _, known := range p[filepath.Dir(name)] {
		if known == base || known == "**" || known == "*" && (isRules(base) || base == "..data") {
			return true
		}
	}
	return false
}

func isRules(base string) bool {
	return strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml")
}

// follow adds the places of an absolute path.
func (p places) follow(path string) error {
	end, found := p.resolve(path)
	if !found {
		return nil
	}
	info, err := os.Stat(end)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it is gone; its folder is watched
	}
	p.add(end, "*")
	entries, err := os.ReadDir(end)
	if err != nil {
		return shortage(err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 && isRules(e.Name()) {
			p.resolve(filepath.Join(end, e.Name()))
		}
	}
	return nil
}

// maxLinks is the most symbolic links of one path, as in the system.
const maxLinks = 40

// resolve follows an absolute path part by part. It adds the folder of each link, of the last part
// and of a missing part, and returns the final path.
func (p places) resolve(path string) (end string, found bool) {
	at := string(filepath.Separator)
	rest := parts(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			p.addWithFolder(at, name)
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			switch {
			case len(rest) > 0:
			case info.IsDir(): // it is watched too, and this is the folder above it
				p.add(at, name)
			default:
				p.addWithFolder(at, name)
			}
			at = next
			continue
		}
		p.addWithFolder(at, name)
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(parts(target), rest...)
	}
	return at, true
}

// parts splits a path. It keeps "..", which resolve joins to the resolved part.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(s string) bool { return s == "" || s == "." })
}
