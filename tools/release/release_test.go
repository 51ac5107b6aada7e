package main

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

var long = flag.Bool("release.long", false, "build all programs for all systems, and the second release without the cache of the first")

// The releases of the tests.
const (
	first  = "v0.1.0"
	second = "v0.1.1"
)

// copied copies the sources of the repository into a folder.
func copied(dir string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	r := &release{options: options{root: root, out: dir}}
	names, err := r.sources()
	if err != nil {
		return err
	}
	for _, name := range names {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// made is what the tests look at: folders of the first release built twice, in different folders,
// and of the second.
type made struct{ first, again, second, key string }

// releases builds them once for all tests.
var releases = sync.OnceValues(func() (m made, err error) {
	work, err := os.MkdirTemp("", "stint-releases")
	if err != nil {
		return m, err
	}
	temporary = work
	m = made{filepath.Join(work, "first"), filepath.Join(work, "again"), filepath.Join(work, "second"), filepath.Join(work, "minisign")}
	if out, err := exec.Command("minisign", "-G", "-W", "-p", m.key+".pub", "-s", m.key+".key").CombinedOutput(); err != nil {
		return m, &exec.Error{Name: string(out), Err: err}
	}
	o := options{version: first, key: m.key + ".key", systems: []string{"linux/amd64"}, programs: []string{"stint"}}
	if *long {
		o.systems, o.programs = allSystems, []string{"stint", "stint-gateway"}
	}
	here, there := filepath.Join(work, "source"), filepath.Join(work, "in", "quite", "another", "folder")
	for _, dir := range []string{here, there} {
		if err := copied(dir); err != nil {
			return m, err
		}
	}
	o.root, o.out = here, m.first
	if err := run(o); err != nil {
		return m, err
	}
	if *long { // nothing is taken from the first build
		if err := os.Setenv("GOCACHE", filepath.Join(work, "cache")); err != nil {
			return m, err
		}
	}
	// Another machine: what it is like must not be in a release.
	for name, value := range map[string]string{"GOMAXPROCS": "3", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "COLUMNS": "40", "STINT_HTTP": "127.0.0.1:1"} {
		if err := os.Setenv(name, value); err != nil {
			return m, err
		}
		defer os.Unsetenv(name) //nolint:errcheck // the name is right
	}
	mask := syscall.Umask(0o077)
	o.root, o.out = there, m.again
	err = run(o)
	syscall.Umask(mask)
	if err != nil {
		return m, err
	}
	// The second release has another configuration, so that an upgrade has to choose.
	config := filepath.Join(here, "deploy/package/stint/stint.yaml")
	data, err := os.ReadFile(config)
	if err != nil {
		return m, err
	}
	if err := os.WriteFile(config, append(data, "\n# a hint of the second release\n"...), 0o600); err != nil {
		return m, err
	}
	o.root, o.out, o.version = here, m.second, second
	o.systems, o.programs = []string{"linux/amd64"}, []string{"stint"}
	return m, run(o)
})

// temporary is the folder of releases; "" before.
var temporary string

func TestMain(m *testing.M) {
	status := m.Run()
	if temporary != "" {
		_ = os.RemoveAll(temporary) // in the folder for temporary files anyway
	}
	os.Exit(status)
}

// built returns the releases. The test is skipped if a program is not installed.
func built(t *testing.T, programs ...string) made {
	t.Helper()
	for _, name := range append(programs, "minisign") {
		if _, err := exec.LookPath(name); err != nil {
			testkit.SkipOrFail(t, name+" is not installed; make deps installs it")
		}
	}
	m, err := releases()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// command runs a command and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestReproducible builds a release in two folders and compares all bytes.
func TestReproducible(t *testing.T) {
	m := built(t)
	read := func(dir string) map[string][]byte {
		all := map[string][]byte{}
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			all[rel], err = os.ReadFile(name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	one, two := read(m.first), read(m.again)
	if len(one) != len(two) || len(one) < 9 {
		t.Errorf("%d and %d files", len(one), len(two))
	}
	for name, data := range one {
		if !bytes.Equal(data, two[name]) {
			t.Errorf("%s: two folders give different bytes", name)
		}
		if bytes.Contains(data, []byte(temporary)) {
			t.Errorf("%s: contains the folder of its source", name)
		}
	}
}

// TestSums checks the sums with sha256sum, and their signature with minisign.
func TestSums(t *testing.T) {
	m := built(t)
	verify := func() error {
		return exec.Command("minisign", "-V", "-p", m.key+".pub", "-m", filepath.Join(m.second, "SHA256SUMS")).Run()
	}
	if err := verify(); err != nil {
		t.Error("minisign refuses the signature:", err)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = m.second
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	sums := filepath.Join(m.second, "SHA256SUMS")
	data, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(m.second)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), "SHA256SUMS") && !bytes.Contains(data, []byte("  "+e.Name()+"\n")) {
			t.Errorf("SHA256SUMS has no %s", e.Name())
		}
	}
	defer os.WriteFile(sums, data, 0o600) //nolint:errcheck // the last test to look at it
	if err := os.WriteFile(sums, append(bytes.Clone(data), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("minisign accepts other sums")
	}
}

// TestArchive unpacks the archive and runs the program in it.
func TestArchive(t *testing.T) {
	m := built(t)
	dir := t.TempDir()
	name := "stint_" + first + "_linux_amd64"
	command(t, "tar", "-xzf", filepath.Join(m.first, name+".tar.gz"), "-C", dir)
	if got := command(t, filepath.Join(dir, name, "stint"), "version"); !strings.HasPrefix(got, "stint "+first+" ") {
		t.Errorf("stint version prints %q", got)
	}
	for _, file := range []string{"LICENSE", "LICENSES-OF-OTHERS", "man/stint.1", "completions/_stint", "completions/stint", "completions/stint.fish"} {
		if data, err := os.ReadFile(filepath.Join(dir, name, file)); err != nil || len(data) < 1000 {
			t.Errorf("%s: %d bytes, %v", file, len(data), err)
		}
	}
	licenses, err := os.ReadFile(filepath.Join(dir, name, "LICENSES-OF-OTHERS"))
	if err != nil || bytes.Contains(licenses, []byte("no license file")) {
		t.Errorf("a module has no license, or %v", err)
	}
	libraries := command(t, "file", "-L", filepath.Join(dir, name, "stint"))
	if !strings.Contains(libraries, "statically linked") || !strings.Contains(libraries, "stripped") {
		t.Errorf("the program is %s", libraries)
	}
}

// TestSPDX checks that the list of contents names what the linker noted.
func TestSPDX(t *testing.T) {
	m := built(t)
	data, err := os.ReadFile(filepath.Join(m.first, "stint_"+first+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d spdxDocument
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stint", "stint for linux/amd64", "std", "github.com/spf13/pflag", "google.golang.org/grpc"} {
		if !slices.ContainsFunc(d.Packages, func(p spdxPackage) bool { return p.Name == name && p.Version != "" }) {
			t.Errorf("no package %s", name)
		}
	}
	ids := map[string]bool{d.ID: true}
	for _, p := range d.Packages {
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("%s %s %s: no such element", r.Element, r.Type, r.Related)
		}
	}
}

// TestZip reads what archives for Windows consist of.
func TestZip(t *testing.T) {
	date := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	write := func(entries ...entry) []byte {
		t.Helper()
		var b bytes.Buffer
		if err := writeZip(&b, entries, date); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	program, license := entry{"top/stint.exe", 0o755, []byte("program")}, entry{"top/LICENSE", 0o644, []byte("license")}
	data := write(program, license)
	if !bytes.Equal(data, write(license, program)) {
		t.Error("the order of the entries changes the archive")
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []entry{license, program} {
		f := z.File[i]
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || f.Name != want.name || f.Mode().Perm() != os.FileMode(want.mode) || !f.Modified.Equal(date) || !bytes.Equal(got, want.data) {
			t.Errorf("%s, %v, %v: %q, %v", f.Name, f.Mode(), f.Modified, got, err)
		}
	}
}

// TestRefused begins releases that cannot be: each is refused before anything is built, with what to do, and
// leaves no folder.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	root, full, bad := filepath.Join(dir, "source"), filepath.Join(dir, "full"), filepath.Join(dir, "bad.key")
	if err := copied(root); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(full, "site"), 0o755))
	command(t, "minisign", "-G", "-W", "-p", filepath.Join(dir, "pub"), "-s", filepath.Join(dir, "key"))
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	testkit.Must(t, err)
	comment, text, _ := strings.Cut(strings.TrimSpace(string(key)), "\n")
	raw, err := base64.StdEncoding.DecodeString(text)
	testkit.Must(t, err)
	raw[70] ^= 1 // in the secret
	testkit.Must(t, os.WriteFile(bad, []byte(comment+"\n"+base64.StdEncoding.EncodeToString(raw)+"\n"), 0o600))
	out := filepath.Join(dir, "out")
	for _, test := range []struct {
		want  string
		epoch string
		o     options
	}{
		{"write it as v1.2.3", "", options{root: root, out: out, version: ""}},
		{"write it as v1.2.3", "", options{root: root, out: out, version: "0.1.0"}},
		{"write it as v1.2.3", "", options{root: root, out: out, version: "v1"}},
		{"write it as v1.2.3", "", options{root: root, out: out, version: "v1.2.3+meta"}},
		{"write it as v1.2.3", "", options{root: root, out: out, version: "v1.2.3 -X a=b"}},
		{"no such file", "", options{root: root, out: out, version: first, key: filepath.Join(dir, "none")}},
		{"minisign -G -W", "", options{root: root, out: out, version: first, key: filepath.Join(dir, "pub")}},
		{"the key is damaged", "", options{root: root, out: out, version: first, key: bad}},
		{"is not empty", "", options{root: root, out: full, version: first}},
		{"no such file", "", options{root: dir, out: out, version: first}},
		{"no number of seconds", "today", options{root: root, out: out, version: first}},
		{"is not between", "0", options{root: root, out: out, version: first}},
		{"is not between", "99999999999", options{root: root, out: out, version: first}},
		{"there are linux/amd64", "", options{root: root, out: out, version: first, systems: []string{"plan9/amd64"}}},
		{"there are stint", "", options{root: root, out: out, version: first, programs: []string{"stint "}}},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", test.epoch)
		if _, err := newRelease(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %s", test.o, err, test.want)
		}
		for _, name := range []string{out, out + ".partial"} {
			if _, err := os.Stat(name); err == nil {
				t.Errorf("%+v leaves %s", test.o, name)
			}
		}
	}
}

// TestZone: what programs write about themselves, such as Caddy the date of its manual pages, does not depend on
// the time zone or the language of the machine.
func TestZone(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	r := &release{date: time.Unix(1_700_000_000, 0)} // 22:13 in UTC, the next day in Tokyo
	got, err := r.output(t.TempDir(), "sh", "-c", `date -d "@$SOURCE_DATE_EPOCH" +%d-%b-%Y; echo $LC_ALL`)
	if err != nil || string(got) != "14-Nov-2023\nC\n" {
		t.Errorf("it writes %q, %v", got, err)
	}
}

// TestMakeRelease runs make release in a folder with a space, with the name of a key that has one.
func TestMakeRelease(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a clone")
	if err := copied(root); err != nil {
		t.Fatal(err)
	}
	release := exec.Command("make", "release", "VERSION="+first, "KEY=no key")
	release.Dir = root
	if out, err := release.CombinedOutput(); err == nil || !strings.Contains(string(out), root+"/no key: no such file") && !strings.Contains(string(out), "open "+root+"/no key") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "dist")); err == nil {
		t.Error("it leaves dist")
	}
}

// TestInterruptedRelease: what an interrupted release left is not a release, and does not get into the next.
func TestInterruptedRelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	begin := func() *release {
		t.Helper()
		r, err := newRelease(options{root: "../..", out: out, version: first, dirty: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(r.work) })
		return r
	}
	testkit.Must(t, os.WriteFile(begin().file("half.tar.gz"), []byte("half"), 0o600))
	if _, err := os.Stat(out); err == nil {
		t.Error("a half release stands in dist")
	}
	testkit.Must(t, os.Mkdir(out, 0o755)) // empty: it is used
	r := begin()
	testkit.Must(t, os.WriteFile(r.file("whole.tar.gz"), []byte("whole"), 0o600))
	testkit.Must(t, r.sums())
	testkit.Must(t, r.complete())
	entries, err := os.ReadDir(out)
	testkit.Must(t, err)
	if len(entries) != 2 || entries[0].Name() != "SHA256SUMS" || entries[1].Name() != "whole.tar.gz" {
		t.Errorf("the release has %v", entries)
	}
}
