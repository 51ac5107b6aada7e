package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// machine is a root file system in which packages are installed.
type machine struct {
	t        *testing.T
	root     string
	readOnly bool // of what serve runs, but for /tmp

	remaining int64 // of the last decision
}

// newMachine returns a root with a shell and rm, which the scripts of packages need, and nothing else.
func newMachine(t *testing.T, shell bool) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		testkit.SkipOrFail(t, "only root can install into another root")
	}
	root, err := os.MkdirTemp("", "m") // short, for the names of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m := &machine{t: t, root: root}
	for _, dir := range []string{"tmp", "run", "var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/rpm", "var/lib/stint"} {
		if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("var/lib/dpkg/status", "")
	m.write("tmp/hour.yaml", "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 10, per: 1h}\n")
	if shell {
		for _, program := range []string{"/bin/sh", "/bin/rm"} {
			m.copy(program)
			for word := range strings.FieldsSeq(command(t, "ldd", program)) {
				if filepath.IsAbs(word) {
					m.copy(word)
				}
			}
		}
	}
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// copy copies a file of this machine to the same place.
func (m *machine) copy(name string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	command(m.t, "cp", "--dereference", name, m.path(name))
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	if err := os.WriteFile(m.path(name), []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// read returns a file, "" if there is none.
func (m *machine) read(name string) string {
	data, _ := os.ReadFile(m.path(name))
	return string(data)
}

// has checks that there are files.
func (m *machine) has(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if _, err := os.Stat(m.path(name)); err != nil {
			m.t.Error(err)
		}
	}
}

// hasNot checks that there are no files.
func (m *machine) hasNot(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(m.path(name)); err == nil {
			m.t.Errorf("%s is still there", name)
		}
	}
}

// version checks the version of the installed program.
func (m *machine) version(want string) {
	m.t.Helper()
	if got := command(m.t, "chroot", m.root, "/usr/bin/stint", "version"); !strings.HasPrefix(got, "stint "+want+" ") {
		m.t.Errorf("stint version prints %q, want %s", got, want)
	}
}

// serve runs the service on the root, as a user, and asks it once. It returns the log.
func (m *machine) serve(user string, args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	var log bytes.Buffer
	args = append([]string{"chroot", "--userspec=" + user, m.root, "/usr/bin/stint", "serve", "--http", "unix:/tmp/h", "--admin", "unix:/tmp/a", "--grpc", ""}, args...)
	if m.readOnly {
		const script = `mount --bind "$0/tmp" "$0/tmp"; mount --rbind "$0" "$0"; mount -o remount,bind,ro "$0"; ! touch "$0/x" 2>/dev/null; exec "$@"`
		args = append([]string{"unshare", "--mount", "sh", "-ec", script, m.root}, args...)
	}
	service := exec.CommandContext(ctx, args[0], args[1:]...)
	service.Stdout, service.Stderr = &log, &log
	if err := service.Start(); err != nil {
		m.t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.path("tmp/h"))
	}}}
	defer client.CloseIdleConnections()
	var answer *http.Response
	var err error
	for range 600 {
		answer, err = client.Post("http://stint/v1/check", "application/json",
			strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`))
		if err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // the process opens its socket by its own clock
	}
	if err == nil {
		var decision struct {
			Allowed bool   `json:"allowed"`
			Rule    string `json:"rule"`

			Remaining int64 `json:"remaining"`
		}
		err = json.NewDecoder(answer.Body).Decode(&decision)
		answer.Body.Close()
		if !decision.Allowed || decision.Rule != "api/user" {
			m.t.Errorf("status %d, %+v", answer.StatusCode, decision)
		}
		m.remaining = decision.Remaining
	}
	_ = service.Process.Signal(syscall.SIGTERM)
	if ended := service.Wait(); err != nil || ended != nil {
		m.t.Errorf("answer %v, end %v\n%s", err, ended, log.Bytes())
	}
	return log.String()
}

// installed are the files of a package that every system has.
var installed = []string{
	"usr/bin/stint", "etc/stint/stint.yaml", "etc/stint/rules.yaml", "usr/lib/systemd/system/stint.service", "usr/lib/systemd/system/stint.socket",
	"usr/share/man/man1/stint.1.gz", "usr/share/man/man1/stint-serve.1.gz", "usr/share/bash-completion/completions/stint",
	"usr/share/zsh/site-functions/_stint", "usr/share/zsh/vendor-completions/_stint", "usr/share/fish/vendor_completions.d/stint.fish",
	"usr/share/doc/stint/copyright", "usr/share/doc/stint/LICENSES-OF-OTHERS", "usr/share/doc/stint/notify-reload.conf",
}

// only returns the one file of a release with an ending.
func only(t *testing.T, dir, ending string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "stint?*"+ending))
	found = slices.DeleteFunc(found, func(name string) bool {
		return strings.Contains(name, "gateway") || strings.Contains(name, "arm64") || strings.Contains(name, "aarch64")
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %q, %v", ending, found, err)
	}
	return found[0]
}

// edited is a configuration that its owner has changed.
const edited = "rules: [/tmp/hour.yaml]\nstate: /var/lib/stint/counts # edited\n"

// upgraded installs, runs, edits, upgrades and removes a package.
func (m *machine) upgraded(install, upgrade, remove func()) {
	m.t.Helper()
	install()
	m.has(installed...)
	m.version(first)
	m.serve("0:0", "--config", "/etc/stint/stint.yaml")
	m.has("var/lib/stint/counts")
	m.write("etc/stint/stint.yaml", edited)
	m.serve("0:0", "--config", "/etc/stint/stint.yaml") // counts of an hour
	upgrade()
	m.version(second)
	if got := m.read("etc/stint/stint.yaml"); got != edited {
		m.t.Errorf("the upgrade has changed the configuration: %q", got)
	}
	if log := m.serve("0:0", "--config", "/etc/stint/stint.yaml"); !strings.Contains(log, `msg="counts loaded" file=/var/lib/stint/counts keys=1`) {
		m.t.Errorf("the upgrade has lost the counts:\n%s", log)
	}
	remove()
	m.hasNot("usr/bin/stint", "usr/lib/systemd/system/stint.service", "usr/share/man/man1/stint.1.gz")
	m.has("var/lib/stint/counts")
}

// TestDowngrade goes back to the first release: its program reads the counts of the second.
func TestDowngrade(t *testing.T) {
	r := built(t, "dpkg")
	m := newMachine(t, true)
	for _, dir := range []string{r.second, r.first} {
		command(t, "dpkg", "--root="+m.root, "--force-confold", "--install", only(t, dir, "_amd64.deb"))
		log := m.serve("0:0", "--config", "/etc/stint/stint.yaml", "--rules", "/tmp/hour.yaml")
		if dir == r.first && !strings.Contains(log, `msg="counts loaded" file=/var/lib/stint/counts keys=1`) {
			t.Errorf("the counts were not loaded:\n%s", log)
		}
	}
	m.version(first)
}

// TestDowngradeOfStores goes back to the first release while the counts are in a store that nodes share.
func TestDowngradeOfStores(t *testing.T) {
	r := built(t)
	for name, url := range map[string]string{"Redis": testkit.StartRedis(t).URL(), "Memcached": testkit.StartMemcached(t).URL()} {
		for i, dir := range []string{r.second, r.first} {
			m := newMachine(t, false)
			command(t, "dpkg-deb", "--extract", only(t, dir, "_amd64.deb"), m.root)
			m.serve("0:0", "--rules", "/tmp/hour.yaml", "--store", url, "--store-timeout", "10s")
			if want := int64(9 - i); m.remaining != want {
				t.Errorf("%s, %s: %d of 10 remain, want %d", name, filepath.Base(dir), m.remaining, want)
			}
		}
	}
}

// TestDeb installs, upgrades, removes and purges the package with dpkg.
func TestDeb(t *testing.T) {
	r := built(t, "dpkg")
	m := newMachine(t, true)
	dpkg := func(args ...string) {
		t.Helper()
		command(t, "dpkg", append([]string{"--root=" + m.root, "--force-confold"}, args...)...)
	}
	m.upgraded(func() { dpkg("--install", only(t, r.first, "_amd64.deb")) },
		func() { dpkg("--install", only(t, r.second, "_amd64.deb")) },
		func() { dpkg("--remove", "stint") })
	if got := m.read("etc/stint/stint.yaml"); got != edited {
		t.Errorf("the removal has changed the configuration: %q", got)
	}
	if got := m.read("etc/stint/stint.yaml.dpkg-dist"); !strings.Contains(got, "a hint of the second release") {
		t.Errorf("the configuration of the upgrade is %q", got)
	}
	dpkg("--purge", "stint")
	m.hasNot("etc/stint/stint.yaml", "var/lib/stint")
}

// TestRPM installs, upgrades and removes the package with rpm.
func TestRPM(t *testing.T) {
	r := built(t, "rpm")
	m := newMachine(t, true)
	rpm := func(args ...string) {
		t.Helper()
		command(t, "rpm", append([]string{"--root", m.root, "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)...)
	}
	m.upgraded(func() { rpm("--install", only(t, r.first, ".x86_64.rpm")) },
		func() { rpm("--upgrade", only(t, r.second, ".x86_64.rpm")) },
		func() { rpm("--erase", "stint") })
	if got := m.read("etc/stint/stint.yaml.rpmsave"); got != edited {
		t.Errorf("the removal has kept %q of the configuration", got)
	}
	if got := m.read("etc/stint/stint.yaml.rpmnew"); !strings.Contains(got, "a hint of the second release") {
		t.Errorf("the configuration of the upgrade is %q", got)
	}
}

// TestScripts installs, upgrades and removes packages on a machine where systemd runs, and compares what they
// ask of it. If it refuses, the packages do not fail.
func TestScripts(t *testing.T) {
	r := built(t, "dpkg", "rpm")
	const reload, restart = "systemctl daemon-reload\n", "systemctl try-restart stint.service\n"
	const stop = "systemctl --no-reload disable --now stint.socket\nsystemctl --no-reload disable --now stint.service\n"
	for _, status := range []string{"0", "1"} {
		m := newMachine(t, true)
		for _, dir := range []string{"run/systemd/system", "dev", "usr/bin"} {
			testkit.Must(t, os.MkdirAll(m.path(dir), 0o755))
		}
		command(t, "mknod", "-m", "666", m.path("dev/null"), "c", "1", "3")
		m.write("usr/bin/systemctl", "#!/bin/sh\necho \"systemctl $*\" >>/tmp/asked\nexit "+status+"\n")
		testkit.Must(t, os.Chmod(m.path("usr/bin/systemctl"), 0o755))
		run := func(want, name string, args ...string) {
			t.Helper()
			m.write("tmp/asked", "")
			command(t, name, args...)
			if got := m.read("tmp/asked"); got != want {
				t.Errorf("%s %v asked systemd:\n%swant:\n%s", name, args, got, want)
			}
		}
		dpkg, rpm := "--root="+m.root, []string{"--root", m.root, "--dbpath", "/var/lib/rpm", "--nodeps"}
		run(reload+restart, "dpkg", dpkg, "--install", only(t, r.first, "_amd64.deb"))
		run(reload+reload+restart, "dpkg", dpkg, "--install", only(t, r.second, "_amd64.deb"))
		run(stop+reload, "dpkg", dpkg, "--remove", "stint")
		run(reload+restart, "rpm", append(rpm, "--install", only(t, r.first, ".x86_64.rpm"))...)
		run(reload+restart+reload, "rpm", append(rpm, "--upgrade", only(t, r.second, ".x86_64.rpm"))...)
		run(stop+reload, "rpm", append(rpm, "--erase", "stint")...)
	}
}

// TestAPK unpacks the package for Alpine, whose tool this machine does not have, and runs it.
func TestAPK(t *testing.T) {
	r := built(t)
	m := newMachine(t, false)
	packed, err := os.Open(only(t, r.first, ".apk"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed) // its parts are one stream
	if err != nil {
		t.Fatal(err)
	}
	untar := exec.Command("tar", "-x", "--ignore-zeros", "--warning=no-unknown-keyword", "-C", m.root)
	untar.Stdin = z
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.has(installed...)
	if info := m.read(".PKGINFO"); !strings.Contains(info, "pkgname = stint\n") || !strings.Contains(info, "arch = x86_64\n") {
		t.Errorf(".PKGINFO: %s", info)
	}
	// apk runs one of the first two, after an upgrade the other: it must restart the service.
	for _, script := range []string{".post-install", ".post-upgrade"} {
		if text := m.read(script); !strings.Contains(text, "systemctl try-restart stint.service") {
			t.Errorf("%s is %q", script, text)
		}
	}
	if text := m.read(".pre-deinstall"); !strings.Contains(text, "disable --now") {
		t.Errorf(".pre-deinstall is %q", text)
	}
	m.version(first)
	m.serve("0:0", "--config", "/etc/stint/stint.yaml")
}

// TestGatewayPackage installs the package of the gateway, in the long form, which builds it.
func TestGatewayPackage(t *testing.T) {
	if !*long {
		t.Log("the gateway is built with -release.long only")
		return
	}
	r := built(t, "dpkg")
	m := newMachine(t, true)
	command(t, "dpkg", "--root="+m.root, "--install", filepath.Join(r.first, "stint-gateway_0.1.0-1_amd64.deb"))
	m.has("usr/lib/systemd/system/stint-gateway.service", "usr/share/man/man8/stint-gateway.8.gz", "usr/share/bash-completion/completions/stint-gateway")
	command(t, "chroot", m.root, "/usr/bin/stint-gateway", "validate", "--config", "/etc/stint-gateway/Caddyfile")
	if got := command(t, "chroot", m.root, "/usr/bin/stint-gateway", "version"); !strings.HasPrefix(got, first) {
		t.Errorf("stint-gateway version prints %q", got)
	}
}

// TestUnits checks the units: their directives, and how much a service of theirs may do.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testkit.SkipOrFail(t, "systemd-analyze is not installed")
	}
	for _, name := range []string{"stint.service", "stint-gateway.service"} {
		unit := "../../deploy/systemd/" + name
		if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: may do more than 2.0\n%s", name, err, out)
		}
		data, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// verify wants the program and the pages to be installed.
		stub := bytes.ReplaceAll(data, []byte("/usr/bin/stint"), []byte("/bin/true"))
		stub = bytes.ReplaceAll(stub, []byte("/bin/true-gateway"), []byte("/bin/true"))
		lines := slices.DeleteFunc(strings.Split(string(stub), "\n"), func(line string) bool { return strings.HasPrefix(line, "Documentation=") })
		checked := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(checked, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", checked).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
