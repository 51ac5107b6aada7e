package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stint/internal/text"
)

// manager plays systemd: it opens the sockets of a service, passes them to its processes, and reads
// their reports.
type manager struct {
	t       *testing.T
	files   []*os.File // of the sockets
	address string     // of the first
	reports *net.UnixConn
	socket  string
}

// newManager opens the sockets of http and admin.
func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // short, for the name of the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &manager{t: t, socket: filepath.Join(dir, "notify")}
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		m.files = append(m.files, f)
		if m.address == "" {
			m.address = l.Addr().String()
		}
		l.Close()
	}
	m.reports, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.reports.Close() })
	return m
}

// start starts a process of the service as systemd does.
func (m *manager) start(args ...string) *exec.Cmd {
	m.t.Helper()
	return m.starting(m.t.Output(), args...)
}

// starting is start with a log.
func (m *manager) starting(log io.Writer, args ...string) *exec.Cmd {
	m.t.Helper()
	var flags []string
	for i, name := range []string{"http", "admin"} {
		l, err := net.FileListener(m.files[i])
		if err != nil {
			m.t.Fatal(err)
		}
		flags = append(flags, "--"+name+"="+l.Addr().String())
		l.Close()
	}
	flags = append(append(flags, "--grpc="), args...)
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec stint serve "$@"`, "sh"}, flags...)...)
	cmd.Env = append(os.Environ(), "LISTEN_FDS=2", "LISTEN_FDNAMES=http:admin", "NOTIFY_SOCKET="+m.socket, "WATCHDOG_USEC=200000")
	cmd.ExtraFiles, cmd.Stderr = m.files, log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// await reads reports until one matches, and returns it.
func (m *manager) await(pattern string) string {
	m.t.Helper()
	if err := m.reports.SetReadDeadline(time.Now().Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	for {
		b := make([]byte, 4096)
		n, err := m.reports.Read(b)
		if err != nil {
			m.t.Fatalf("no report like %s: %v", pattern, err)
		}
		if report := string(b[:n]); regexp.MustCompile(pattern).MatchString(report) {
			return report
		}
	}
}

// TestReports checks what a service reports to systemd: when it serves, that it is alive, when a
// reload begins and ends, and that it stops.
func TestReports(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(restartRules), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newManager(t)
	service := m.start("--rules=" + rules)
	m.await(`^READY=1\nSTATUS=serving$`)
	answer, err := http.Get("http://" + m.address + "/v1/check")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	m.await("^WATCHDOG=1$")
	m.await("^WATCHDOG=1$")
	signal := func(s os.Signal) {
		t.Helper()
		if err := service.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGHUP)
	report := m.await("^RELOADING=1\nMONOTONIC_USEC=")
	_, usec, _ := strings.Cut(report, "MONOTONIC_USEC=")
	if n, err := strconv.ParseInt(usec, 10, 64); err != nil || n <= 0 {
		t.Errorf("the time of the reload is %q", usec)
	}
	m.await(`^READY=1\nSTATUS=serving$`)
	if err := os.WriteFile(rules, []byte("domain: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGHUP)
	m.await("^READY=1\nSTATUS=serving; the last reload was refused$")
	signal(syscall.SIGTERM)
	m.await("^STOPPING=1\n")
	if err := service.Wait(); err != nil {
		t.Error(err)
	}
}

// TestSocketActivation restarts a service whose sockets stay open. No connection is refused, and no
// request is lost.
func TestSocketActivation(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(restartRules), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newManager(t)
	start := func() *exec.Cmd {
		t.Helper()
		service := m.start("--rules=" + rules)
		m.await("^READY=1\n")
		return service
	}
	service := start()
	var stop atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			for !stop.Load() {
				answer, err := client.Post("http://"+m.address+"/v1/check", "application/json",
					strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Errorf("status %d, %v: %s", answer.StatusCode, err, body)
				}
				answer.Body.Close()
				requests.Add(1)
			}
		})
	}
	for range 3 {
		before := requests.Load()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for requests.Load() < before+20 && ctx.Err() == nil {
			time.Sleep(time.Millisecond) // clients of the real service
		}
		cancel()
		if err := service.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := service.Wait(); err != nil {
			t.Error(err)
		}
		service = start()
	}
	stop.Store(true)
	clients.Wait()
	if n := requests.Load(); n < 60 {
		t.Errorf("only %d requests", n)
	}
	if err := service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := service.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUnwantedSocket checks that a service does not start if it got a socket that none of its
// listeners uses: clients of that socket would wait for ever.
func TestUnwantedSocket(t *testing.T) {
	m := newManager(t)
	service := m.start("--http=127.0.0.1:0")
	if err := service.Wait(); err == nil || service.ProcessState.ExitCode() != exitRefused {
		t.Errorf("the service ended with %v", err)
	}
}

// TestUnreachableManager checks that a service whose manager gets no reports says so: systemd would end it
// after its time for the start, without a reason.
func TestUnreachableManager(t *testing.T) {
	m := newManager(t)
	m.reports.Close()
	m.socket += "-none"
	var log text.OutputBuffer
	service := m.starting(&log)
	for said, more := log.Follow(); !strings.Contains(said, "cannot report to the service manager") || !strings.Contains(said, "NOTIFY_SOCKET"); said, more = log.Follow() {
		select {
		case <-more:
		case <-time.After(patience):
			t.Fatalf("it logged %s", said)
		}
	}
	if err := service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := service.Wait(); err != nil {
		t.Error(err)
	}
}
