package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"stint/internal/testkit"
)

// setDescriptors sets how many file descriptors a node may have.
func (n *node) setDescriptors(t *testing.T, most uint64) {
	t.Helper()
	var limit syscall.Rlimit
	prlimit := func(change, before *syscall.Rlimit) {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(n.process.cmd.Process.Pid), syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(change)), uintptr(unsafe.Pointer(before)), 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	prlimit(nil, &limit)
	limit.Cur = most // only root could raise Max again
	prlimit(&limit, nil)
}

// flood opens idle connections, most of them, and waits until the node has refused one.
func flood(t *testing.T, n *node, addr string, most int) {
	t.Helper()
	for range most {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	for deadline := time.Now().Add(patience); n.metric(t, `stint_connections_refused_total{listener="http"}`)+n.metric(t, `stint_connections_refused_total{listener="grpc"}`) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing was refused")
		}
	}
}

// Idle connections use up all descriptors for traffic. The admin listener still answers, and a
// changed rule file is loaded.
func TestDescriptorsAreKept(t *testing.T) {
	n := startNode(t, restartRules, "--resp=", "--max-connections=0")
	n.setDescriptors(t, 256)
	idle := 400
	flood(t, n, strings.TrimPrefix(n.http, "http://"), idle)
	flood(t, n, n.grpc, idle/2)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		resp, err := fresh.Get(n.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
	file := filepath.Join(n.process.cmd.Dir, "rules.yaml")
	// A rename, because a file written in place changes twice.
	changed := filepath.Join(t.TempDir(), "rules.yaml")
	testkit.Must(t, os.WriteFile(changed, []byte(strings.Replace(restartRules, "1000000", "5", 1)), 0o600))
	testkit.Must(t, os.Rename(changed, file))
	n.process.await(t, regexp.MustCompile(`msg="rules loaded" reason="files changed"`))
	if text := n.log(); strings.Count(text, "connections refused") != 1 || !strings.Contains(text, "nearly all file descriptors are in use") {
		t.Errorf("the log does not say once that connections were refused:\n%s", text)
	}
	open := n.metric(t, `stint_connections_open{listener="http"}`) + n.metric(t, `stint_connections_open{listener="grpc"}`)
	t.Logf("%v connections are open of %d, with 256 descriptors", open, idle+idle/2)
	if open < 100 || open > 192 {
		t.Errorf("%v connections are open", open)
	}
}

// A reload that failed for lack of descriptors is tried again.
func TestReloadWithoutDescriptors(t *testing.T) {
	n := startNode(t, restartRules, "--resp=")
	file := filepath.Join(n.process.cmd.Dir, "rules.yaml")
	change := func(requests string) {
		// A rename, because a file written in place changes twice.
		changed := filepath.Join(t.TempDir(), "rules.yaml")
		testkit.Must(t, os.WriteFile(changed, []byte(strings.Replace(restartRules, "1000000", requests, 1)), 0o600))
		testkit.Must(t, os.Rename(changed, file))
	}
	change("5")
	n.process.await(t, regexp.MustCompile(`msg="rules loaded" reason="files changed"`)) // now the files are watched
	again := false
	for round := 0; !again && round < 5; round++ { // the file may be checked once more before, and then no retry is needed
		n.setDescriptors(t, 3)
		testkit.Must(t, n.process.cmd.Process.Signal(syscall.SIGHUP))
		n.process.await(t, regexp.MustCompile(`msg="rules refused: keeping the old ones".*reason=SIGHUP.*too many open files`))
		n.setDescriptors(t, 1024)
		loaded := n.process.await(t, regexp.MustCompile(`msg="rules loaded" reason="(tried again|files changed)"`))
		again = strings.Contains(loaded, "tried again")
	}
	if !again {
		t.Error("a reload that failed was not tried again by itself")
	}

	n.setDescriptors(t, 3)
	change("6")
	n.process.await(t, regexp.MustCompile(`msg="rules refused: keeping the old ones" reason="files changed".*too many open files`))
	n.setDescriptors(t, 1024)
	n.process.await(t, regexp.MustCompile(`msg="rules loaded" reason="(tried again|files changed)"`))
}
