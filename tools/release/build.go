package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// binary returns the path of a built program.
func (r *release) binary(p *program, s system) string {
	name := p.name
	if s.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, s.os+"-"+s.arch, name)
}

// build builds a program: static, without paths of this machine, without tables for debuggers, and
// with its version.
func (r *release) build(p *program, s system) error {
	env := []string{"CGO_ENABLED=0", "GOOS=" + s.os, "GOARCH=" + s.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off"}
	dir := filepath.Join(r.root, p.module)
	flags := "-s -w -buildid= -X " + strings.Join(p.linked, " -X ")
	_, err := r.outputWith(env, dir, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags, "-o", r.binary(p, s), "./cmd/"+p.name)
	return err
}

// native returns the path of a program for this machine. It builds it if the release has none.
func (r *release) native(p *program) (string, error) {
	here := system{runtime.GOOS, runtime.GOARCH}
	path := r.binary(p, here)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, r.build(p, here)
}
