// Command release builds everything that a release of Stint consists of: programs and archives for
// six systems, packages for Debian, Red Hat and Alpine, images, lists of contents, a module proxy
// and signed check sums. Two runs on the same source, version and date write the same bytes,
// wherever the source stands. It needs no network but for Go modules, no docker and no root.
//
//	release -version v0.1.0 -out dist
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	o := options{}
	flag.StringVar(&o.root, "root", ".", "`FOLDER` of the repository")
	flag.StringVar(&o.out, "out", "dist", "`FOLDER` to write; it must be empty or missing")
	flag.StringVar(&o.version, "version", "", "`VERSION` of the release, such as v0.1.0")
	flag.StringVar(&o.key, "key", "", "secret minisign key `FILE`, without password, that signs SHA256SUMS")
	flag.BoolVar(&o.dirty, "dirty", false, "release changes that are not committed too")
	systems := flag.String("systems", strings.Join(allSystems, ","), "`LIST` of systems, with commas")
	programs := flag.String("programs", "stint,stint-gateway", "`LIST` of programs, with commas")
	flag.Parse()
	o.systems, o.programs = strings.Split(*systems, ","), strings.Split(*programs, ",")
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are what a release is made from.
type options struct {
	root, out, version string
	key                string // file; "": not signed
	dirty              bool
	systems, programs  []string
}

// run writes a release.
func run(o options) error {
	r, err := newRelease(o)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }() // in the folder for temporary files
	for _, p := range r.programs {
		if err := r.program(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if err := r.goproxy(); err != nil {
		return fmt.Errorf("goproxy: %w", err)
	}
	if err := r.sums(); err != nil {
		return err
	}
	return r.complete()
}

// program writes all files of a program.
func (r *release) program(p *program) error {
	for _, s := range r.systems {
		r.progress("%s for %s", p.name, s)
		if err := r.build(p, s); err != nil {
			return err
		}
	}
	if err := r.describe(p); err != nil {
		return err
	}
	for _, s := range r.systems {
		if err := r.archive(p, s); err != nil {
			return err
		}
		if s.os == "linux" {
			if err := r.packages(p, s); err != nil {
				return err
			}
		}
	}
	if err := r.images(p); err != nil {
		return err
	}
	return r.spdx(p)
}

// progress prints what is being done.
func (r *release) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...)
}

// file returns the path of a file of the release.
func (r *release) file(name string) string { return filepath.Join(r.out, name) }
