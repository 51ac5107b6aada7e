package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stint/internal/testkit"
)

// mounts makes a copy of this machine that writes elsewhere. The folders of the kernel are read-only there, as
// in a container, so that systemd does not set anything up for all. Arguments: a folder for the copy, and a
// file for what systemd prints.
const mounts = `
mount --make-rprivate /
cd "$1"
mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs -o mode=755 tmpfs dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
touch dev/console
mount --bind "$2" dev/console
printf '[Unit]\nDefaultDependencies=no\n' >etc/systemd/system/nothing.target
ip link set lo up
`

// boot starts systemd as the first process of that copy.
const boot = mounts + `
mkdir -p .old
pivot_root . .old
cd /
umount -l /.old
exec env -i container=lxc PATH="$PATH" /lib/systemd/systemd --system --unit=nothing.target --log-target=console
`

// booted is a machine whose first process is systemd.
type booted struct {
	t       *testing.T
	pid     string
	console string // name of the file
}

// bootSystemd starts one for a test.
func bootSystemd(t *testing.T) *booted {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	testkit.Must(t, err)
	if !strings.Contains(string(own), ":name=systemd:") {
		testkit.SkipNotGranted(t, "the group of processes that systemd needs")
	}
	apart := func(script string, options ...string) (cmd *exec.Cmd, console string) {
		dir := t.TempDir()
		for _, name := range []string{"up", "work", "root"} {
			testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
		console = filepath.Join(dir, "console")
		testkit.Must(t, os.WriteFile(console, nil, 0o600))
		options = append([]string{"--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup"}, options...)
		return exec.Command("unshare", append(options, "sh", "-ec", script, "sh", dir, console)...), console
	}
	tried, _ := apart(mounts, "--fork")
	if out, err := tried.CombinedOutput(); err != nil {
		testkit.SkipNotGranted(t, "processes, mounts and networks of their own: "+string(out))
	}
	cmd, console := apart(boot, "--kill-child")
	b := &booted{t: t, console: console}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and so its child, and all processes of that
		_ = cmd.Wait()
		testkit.Until(t, "systemd has ended", func() bool { _, err := os.Stat("/proc/" + b.pid + "/ns"); return b.pid == "" || err != nil })
		for line := range strings.Lines(string(own)) { // what systemd made in our groups
			kind, path := strings.Split(strings.TrimSpace(line), ":")[1], strings.Split(strings.TrimSpace(line), ":")[2]
			if kind == "" {
				kind = "unified"
			}
			group := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(kind, "name="), path)
			_ = exec.Command("find", filepath.Join(group, "system.slice"), filepath.Join(group, "init.scope"), "-depth", "-type", "d", "-delete").Run()
		}
		if t.Failed() {
			console, _ := os.ReadFile(b.console)
			t.Logf("it printed %s, and on the console %s", out.Bytes(), console)
		}
	})
	testkit.Until(t, "systemd runs", func() bool {
		children, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
		b.pid = strings.TrimSpace(string(children))
		state, err := b.command("systemctl", "is-system-running").Output()
		return err == nil && strings.TrimSpace(string(state)) == "running"
	})
	return b
}

// command returns a command that runs on the machine.
func (b *booted) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", b.pid, "-m", "-p", "-u", "-i", "-n", "--wd=/", "env", "-i", "PATH=" + os.Getenv("PATH"), "DEBIAN_FRONTEND=noninteractive"}, args...)...)
}

// run runs a command there and returns what it prints, without the end of the line.
func (b *booted) run(args ...string) string {
	b.t.Helper()
	out, err := b.command(args...).CombinedOutput()
	if err != nil {
		status, _ := b.command("systemctl", "status", "--no-pager", "stint.service").CombinedOutput()
		b.t.Fatalf("%q: %v\n%s\n%s", args, err, out, status)
	}
	return strings.TrimSpace(string(out))
}

// show returns a property of the service.
func (b *booted) show(property string) string {
	b.t.Helper()
	return b.run("systemctl", "show", "--value", "--property", property, "stint.service")
}

// restarted waits until the service runs again in another process, and returns that.
func (b *booted) restarted(before string) (pid string) {
	b.t.Helper()
	testkit.Until(b.t, "the service runs in another process", func() bool {
		pid = b.show("MainPID")
		return pid != before && pid != "0" && b.show("ActiveState") == "active"
	})
	b.run("systemctl", "reset-failed", "stint.service") // so that systemd does not count it
	return pid
}

// calls are calls of the service, each on a new connection, until they are ended.
type calls struct {
	b   *booted
	cmd *exec.Cmd
	out *os.File
}

func (b *booted) startCalls() *calls {
	b.t.Helper()
	out, err := os.Create(filepath.Join(b.t.TempDir(), "calls"))
	testkit.Must(b.t, err)
	b.t.Cleanup(func() { _ = out.Close() })
	c := &calls{b: b, out: out, cmd: b.command("curl", "-s", "-o", "/dev/null", "-w", `%{http_code} %{errormsg}\n`, "-H", "Connection: close",
		"-d", `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`, "http://127.0.0.1:8080/v1/check?[1-1000000]")}
	c.cmd.Stdout = out
	testkit.Must(b.t, c.cmd.Start())
	b.t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	c.more()
	return c
}

// answered returns what was answered so far.
func (c *calls) answered() string {
	c.b.t.Helper()
	all, err := os.ReadFile(c.out.Name())
	testkit.Must(c.b.t, err)
	return string(all[:bytes.LastIndexByte(all, '\n')+1])
}

// more waits until further calls were answered.
func (c *calls) more() {
	c.b.t.Helper()
	before := len(c.answered())
	testkit.Until(c.b.t, "calls are answered", func() bool { return len(c.answered()) > before })
}

// end ends the calls, and fails the test unless the service decided all of them.
func (c *calls) end() {
	c.b.t.Helper()
	c.more()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	for line := range strings.Lines(c.answered()) {
		if status := strings.TrimSpace(line); status != "200" && status != "429" {
			c.b.t.Errorf("a call during restarts: %s", status)
		}
	}
}

// TestSystemd installs the package where systemd is the first process: the service starts with all
// restrictions of its unit, reloads, restarts and is upgraded without a refused call, and is started again when
// it hangs. A purge leaves nothing.
func TestSystemd(t *testing.T) {
	r := built(t, "dpkg", "systemctl", "curl", "ip")
	newMachine(t, false) // only root can
	b := bootSystemd(t)
	dpkg := func(args ...string) {
		t.Helper()
		b.run(append([]string{"dpkg", "--no-triggers", "--force-confold"}, args...)...)
	}
	copied := func(name string) string { // the copy sees files of this machine, but not those of /tmp
		t.Helper()
		to := "/run/" + filepath.Base(name)
		in, err := os.Open(name)
		testkit.Must(t, err)
		defer in.Close()
		cmd := b.command("sh", "-c", `cat >"$0"`, to)
		cmd.Stdin = in
		testkit.Must(t, cmd.Run())
		return to
	}

	dpkg("--install", copied(only(t, r.first, "_amd64.deb")))
	b.run("systemctl", "start", "stint.service")
	pid := b.show("MainPID")
	if status := b.run("cat", "/proc/"+pid+"/status"); !strings.Contains(status, "CapBnd:\t0000000000000000") ||
		!strings.Contains(status, "NoNewPrivs:\t1") || !strings.Contains(status, "Seccomp:\t2") || strings.Contains(status, "Uid:\t0") {
		t.Errorf("the service runs with %s", status)
	}
	if got := b.show("StatusText"); got != "serving" {
		t.Errorf("its status is %q", got)
	}
	b.run("test", "-e", "/var/lib/private/stint/counts.secret")

	b.run("sh", "-c", "cp /etc/stint/rules.yaml /run; echo 'x: [' >>/etc/stint/rules.yaml; systemctl reload stint.service")
	testkit.Until(t, "the reload is refused", func() bool { return b.show("StatusText") == "serving; the last reload was refused" })
	b.run("sh", "-c", "cp /run/rules.yaml /etc/stint/; systemctl reload stint.service")
	testkit.Until(t, "the reload is accepted", func() bool { return b.show("StatusText") == "serving" })

	b.run("systemctl", "stop", "stint.service")
	b.run("systemctl", "enable", "--now", "stint.socket")
	if state := b.show("ActiveState"); state != "inactive" {
		t.Errorf("without a call the service is %s", state)
	}
	c := b.startCalls()
	pid = b.restarted("0")
	for range 2 {
		b.run("systemctl", "restart", "stint.service")
		pid = b.restarted(pid)
		c.more()
	}
	b.run("sh", "-c", "echo '# edited' >>/etc/stint/stint.yaml")
	dpkg("--install", copied(only(t, r.second, "_amd64.deb")))
	pid = b.restarted(pid)
	c.end()
	if got := b.run("tail", "-n1", "/etc/stint/stint.yaml"); got != "# edited" {
		t.Errorf("the upgrade has changed the configuration: %q", got)
	}
	if got := b.run("/proc/"+pid+"/exe", "version"); !strings.HasPrefix(got, "stint "+second) {
		t.Errorf("after the upgrade runs %q", got)
	}

	b.run("sh", "-c", "mkdir /run/systemd/system/stint.service.d; printf '[Service]\nWatchdogSec=2s\n' >/run/systemd/system/stint.service.d/soon.conf; systemctl daemon-reload; systemctl restart stint.service")
	pid = b.restarted(pid)
	b.run("kill", "-STOP", pid)
	b.restarted(pid)

	dpkg("--remove", "stint")
	if got := b.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "stint.s*"); got != "" {
		t.Errorf("after the removal there is %s", got)
	}
	dpkg("--purge", "stint")
	if got := b.run("find", "/etc", "/var/lib", "-name", "stint*", "-not", "-path", "*/dpkg/*"); got != "" {
		t.Errorf("the purge has left %s", got)
	}
}
