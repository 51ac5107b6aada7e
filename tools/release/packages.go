package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // registers its format, as the next two do
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// formats are the formats of packages.
var formats = []string{"deb", "rpm", "apk"}

// configs returns the configuration files that packages install in /etc/NAME.
func (r *release) configs(p *program) ([]text, error) {
	dir := filepath.Join(r.root, "deploy/package", p.name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []text
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, text{e.Name(), data})
	}
	return all, nil
}

// packages writes the packages of a program for a Linux system.
func (r *release) packages(p *program, s system) error {
	stage, err := os.MkdirTemp(r.work, "package")
	if err != nil {
		return err
	}
	contents, err := r.contents(p, s, stage)
	if err != nil {
		return err
	}
	for _, format := range formats {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info, err := r.info(p, s, contents)
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := packager.Package(info, &b); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		if err := os.WriteFile(r.file(packager.ConventionalFileName(info)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// info returns the description of a package.
func (r *release) info(p *program, s system, contents files.Contents) (*nfpm.Info, error) {
	scripts, err := r.scripts(p)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: p.name, Arch: s.arch, Platform: s.os, Version: r.version, Release: "1", Section: "net", Priority: "optional",
		Maintainer: "The Stint authors <stint@localhost>", Vendor: "Stint", License: "Apache-2.0",
		Description: p.summary + "\n" + p.text, MTime: r.date,
	}
	info.Contents = contents
	info.Scripts = scripts
	info.RPM.BuildHost, info.RPM.Summary = "stint", p.summary
	info.Deb.Compression = "gzip"
	info.APK.Scripts.PostUpgrade = scripts.PostInstall // apk runs no other script after an upgrade
	return nfpm.WithDefaults(info), nil
}

// scripts returns the scripts of a package.
func (r *release) scripts(p *program) (nfpm.Scripts, error) {
	write := func(name string) (string, error) {
		data, err := os.ReadFile(filepath.Join(r.root, "deploy/package", name))
		if err != nil {
			return "", err
		}
		file := filepath.Join(r.work, p.name+"-"+name)
		if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("@NAME@"), []byte(p.name)), 0o755); err != nil {
			return "", err
		}
		return file, os.Chtimes(file, r.date, r.date) // apk stores it
	}
	var s nfpm.Scripts
	for _, script := range []struct {
		to   *string
		name string
	}{{&s.PostInstall, "postinstall.sh"}, {&s.PreRemove, "preremove.sh"}, {&s.PostRemove, "postremove.sh"}} {
		file, err := write(script.name)
		if err != nil {
			return s, err
		}
		*script.to = file
	}
	return s, nil
}

// contents writes the files of a package into a folder and returns where each is installed.
func (r *release) contents(p *program, s system, stage string) (files.Contents, error) {
	binary, err := os.ReadFile(r.binary(p, s))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	doc := path.Join("/usr/share/doc", p.name)
	all := []entry{
		{"/usr/bin/" + p.name, 0o755, binary},
		{path.Join(doc, "copyright"), 0o644, license},
		{path.Join(doc, "LICENSES-OF-OTHERS"), 0o644, p.manual.licenses},
	}
	for shell, data := range p.manual.completions {
		all = append(all, entry{path.Join("/usr/share", completionPath(shell, p.name)), 0o644, data})
		if shell == "zsh" { // where Debian's zsh looks
			all = append(all, entry{path.Join("/usr/share/zsh/vendor-completions", "_"+p.name), 0o644, data})
		}
	}
	for _, page := range p.manual.pages {
		data, err := packed(page.data)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{path.Join("/usr/share/man/man"+strings.TrimPrefix(path.Ext(page.name), "."), page.name+".gz"), 0o644, data})
	}
	units, err := r.units(p)
	if err != nil {
		return nil, err
	}
	all = append(all, units...)
	configs, err := r.configs(p)
	if err != nil {
		return nil, err
	}
	for _, c := range configs {
		all = append(all, entry{path.Join("/etc", p.name, c.name), 0o644, c.data})
	}
	var contents files.Contents
	for _, e := range sorted(all) {
		source := filepath.Join(stage, filepath.FromSlash(e.name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(source, e.data, 0o644); err != nil {
			return nil, err
		}
		kind := files.TypeFile
		if strings.HasPrefix(e.name, "/etc/") {
			kind = files.TypeConfigNoReplace
		}
		contents = append(contents, &files.Content{
			Source: source, Destination: e.name, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: os.FileMode(e.mode), MTime: r.date},
		})
	}
	return contents, nil
}

// units returns the units of systemd of a program, and the drop-in for newer versions of systemd
// as a document: an administrator chooses it.
func (r *release) units(p *program) ([]entry, error) {
	names, err := filepath.Glob(filepath.Join(r.root, "deploy/systemd", p.name+".*"))
	if err != nil {
		return nil, err
	}
	var units []entry
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		units = append(units, entry{"/usr/lib/systemd/system/" + filepath.Base(name), 0o644, data})
	}
	dropIn, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd/notify-reload.conf"))
	if err != nil {
		return nil, err
	}
	return append(units, entry{path.Join("/usr/share/doc", p.name, "notify-reload.conf"), 0o644, dropIn}), nil
}
