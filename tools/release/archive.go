package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// archive writes the archive of a program for a system: a zip for Windows, else a tar.
func (r *release) archive(p *program, s system) error {
	binary, err := os.ReadFile(r.binary(p, s))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	top := p.name + "_" + r.version + "_" + s.os + "_" + s.arch
	entries := []entry{
		{filepath.Base(r.binary(p, s)), 0o755, binary},
		{"LICENSE", 0o644, license},
		{"LICENSES-OF-OTHERS", 0o644, p.manual.licenses},
	}
	for shell, data := range p.manual.completions {
		entries = append(entries, entry{path.Join("completions", path.Base(completionPath(shell, p.name))), 0o644, data})
	}
	for _, page := range p.manual.pages {
		entries = append(entries, entry{path.Join("man", page.name), 0o644, page.data})
	}
	for i := range entries {
		entries[i].name = path.Join(top, entries[i].name)
	}
	var b bytes.Buffer
	ending := ".tar.gz"
	if s.os == "windows" {
		ending = ".zip"
		err = writeZip(&b, entries, r.date)
	} else {
		err = writeTarGzip(&b, entries, r.date)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(r.file(top+ending), b.Bytes(), 0o644)
}

// writeTarGzip writes a compressed tar.
func writeTarGzip(w io.Writer, entries []entry, date time.Time) error {
	z := gzip.NewWriter(w)
	if err := writeTar(z, entries, date); err != nil {
		return err
	}
	return z.Close()
}

// writeTar writes entries in the order of their names, and the folders that they need before them.
// All belong to root and have the same date.
func writeTar(w io.Writer, entries []entry, date time.Time) error {
	t := tar.NewWriter(w)
	made := map[string]bool{".": true}
	var folders func(dir string) error
	folders = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := folders(path.Dir(dir)); err != nil {
			return err
		}
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date, Format: tar.FormatPAX})
	}
	for _, e := range sorted(entries) {
		if err := folders(path.Dir(path.Clean(e.name))); err != nil {
			return err
		}
		if strings.HasSuffix(e.name, "/") {
			made[path.Clean(e.name)] = true
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.name, Mode: e.mode, ModTime: date, Format: tar.FormatPAX}); err != nil {
				return err
			}
			continue
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: date, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeZip writes entries in the order of their names.
func writeZip(w io.Writer, entries []entry, date time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range sorted(entries) {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}

func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
}
