package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// allSystems are the systems that a release is built for.
var allSystems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// system is an operating system and an architecture, in Go's words.
type system struct{ os, arch string }

func (s system) String() string { return s.os + "/" + s.arch }

// program is one program of the release.
type program struct {
	name    string
	module  string   // folder of its module in the repository
	linked  []string // what the linker sets: VARIABLE=VALUE
	ports   []string // that its image exposes
	command []string // arguments of its image
	limit   int64    // most compressed bytes of its image
	summary string
	text    string // of its packages

	manual *manual // nil before describe
}

// knownPrograms returns the programs of a version; module is the path of the root module.
func knownPrograms(module, version string) []*program {
	const caddy = "github.com/caddyserver/caddy/v2."
	return []*program{
		{
			name: "stint", module: ".", linked: []string{module + "/app.version=" + version},
			ports: []string{"8080/tcp", "8081/tcp"}, limit: 30 << 20,
			command: []string{"serve", "--http", "0.0.0.0:8080", "--grpc", "0.0.0.0:8081"},
			summary: "rate limiter: a service for proxies, and a tool for its rules",
			text:    "Decides for Envoy, nginx, HAProxy, Traefik and others whether a request may pass.",
		},
		{
			name: "stint-gateway", module: "gateway", linked: []string{caddy + "CustomVersion=" + version, caddy + "CustomBinaryName=stint-gateway"},
			ports: []string{"80/tcp", "443/tcp", "443/udp"}, limit: 45 << 20,
			command: []string{"run", "--config", "/etc/stint-gateway/Caddyfile"},
			summary: "the Caddy web server with the rate limiter Stint built in",
			text:    "A gateway with TLS, keys, address lists, rate limits and queues.",
		},
	}
}

// release is a release in the making.
type release struct {
	options
	modulePath string    // of the root module
	date       time.Time // of every file in the release
	work       string    // a folder of its own for intermediate files
	final      string    // where out is moved when it is complete
	signer     *signingKey
	systems    []system
	programs   []*program
}

// newRelease checks the options and makes the folders.
func newRelease(o options) (*release, error) {
	if !semver.IsValid(o.version) || semver.Canonical(o.version) != o.version {
		return nil, fmt.Errorf("version %q: write it as v1.2.3 or v1.2.3-rc.1", o.version)
	}
	r := &release{options: o}
	var err error
	if r.root, err = filepath.Abs(o.root); err != nil {
		return nil, err
	}
	if r.out, err = filepath.Abs(o.out); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(filepath.Join(r.root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("the root of the repository: %w", err)
	}
	if r.modulePath = modfile.ModulePath(mod); r.modulePath == "" {
		return nil, fmt.Errorf("%s: no module line", filepath.Join(r.root, "go.mod"))
	}
	if r.date, err = r.sourceDate(); err != nil {
		return nil, err
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if found, err := os.ReadDir(r.out); err == nil && len(found) > 0 {
		return nil, fmt.Errorf("%s is not empty: remove it, or give another folder", r.out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.key != "" { // before an hour of builds
		if r.signer, err = readKey(r.key); err != nil {
			return nil, fmt.Errorf("%s: %w", r.key, err)
		}
	}
	r.final, r.out = r.out, r.out+".partial"
	if err = os.RemoveAll(r.out); err != nil { // of a release that was interrupted
		return nil, err
	}
	if err = os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	r.work, err = os.MkdirTemp("", "stint-release")
	return r, err
}

// complete moves the folder to where it belongs, so that there is never a part of a release.
func (r *release) complete() error {
	if err := os.Remove(r.final); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	return os.Rename(r.out, r.final)
}

// choose sets the systems and programs of the options.
func (r *release) choose() error {
	for _, name := range r.options.systems {
		if !slices.Contains(allSystems, name) {
			return fmt.Errorf("system %q: there are %s", name, strings.Join(allSystems, ", "))
		}
		kind, arch, _ := strings.Cut(name, "/")
		r.systems = append(r.systems, system{kind, arch})
	}
	for _, name := range r.options.programs {
		all := knownPrograms(r.modulePath, r.version)
		i := slices.IndexFunc(all, func(p *program) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("program %q: there are stint and stint-gateway", name)
		}
		r.programs = append(r.programs, all[i])
	}
	return nil
}

// oldest is the oldest time that a zip file can store.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// sourceDate returns SOURCE_DATE_EPOCH, else the time of the last commit. A folder without a commit
// has the oldest time that a zip file can store. It refuses changes that are not committed.
func (r *release) sourceDate() (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if _, err := os.Stat(filepath.Join(r.root, ".git")); err == nil {
		changes, err := r.output(r.root, "git", "status", "--porcelain")
		if err != nil {
			return time.Time{}, err
		}
		if len(changes) > 0 && !r.dirty {
			return time.Time{}, fmt.Errorf("changes are not committed: commit them, or give -dirty\n%s", changes)
		}
		commit, err := r.output(r.root, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, err
		}
		seconds = cmp.Or(seconds, strings.TrimSpace(string(commit)))
	}
	if seconds == "" {
		return oldest, nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", seconds)
	}
	if n < oldest.Unix() || n > math.MaxUint32 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %s is not between %d (1980) and %d (2106), which all archives can store", seconds, oldest.Unix(), uint32(math.MaxUint32))
	}
	return time.Unix(n, 0).UTC(), nil
}

// output runs a command in a folder and returns what it prints.
func (r *release) output(dir string, args ...string) ([]byte, error) {
	return r.outputWith(nil, dir, args...)
}

// outputWith is output with more variables in the environment.
func (r *release) outputWith(env []string, dir string, args ...string) ([]byte, error) {
	var out, failure bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &failure
	// The manual pages of Caddy have the date in the zone of the machine.
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.date.Unix(), 10), "TZ=UTC0", "LC_ALL=C"), env...)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, failure.Bytes())
	}
	return out.Bytes(), nil
}
