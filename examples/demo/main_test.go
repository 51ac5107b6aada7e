package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/examples/process"
	"stint/facts"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/internal/text"
)

func TestMain(m *testing.M) {
	if os.Getenv("RUN_DEMO") != "" {
		main()
		return
	}
	programs.Main(m)
}

// The demo shows that the limit was kept, and leaves no files and no processes.
func TestDemo(t *testing.T) {
	testkit.RedisVersion(t) // skips where there is none
	binary := programs.Build(t)
	t.Setenv("TMPDIR", t.TempDir())
	lasts := 4 * time.Second
	if testing.Short() {
		lasts = time.Second
	}
	var out bytes.Buffer
	err := run(t.Context(), &out, binary, lasts, 0)
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node 2 is killed", "node 3", "The limit held"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// The page whose address is printed shows all three nodes, also the one that was killed and is back, and
// the traffic.
func TestPage(t *testing.T) {
	testkit.RedisVersion(t) // skips where there is none
	binary := programs.Build(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	out := new(text.OutputBuffer)
	done := make(chan error, 1)
	go func() { done <- run(ctx, out, binary, time.Second, time.Minute) }()
	programs.Until(t, "the page", func() bool { return strings.Contains(out.String(), "Ctrl-C ends") })
	page := regexp.MustCompile(`on the page (\S+)`).FindStringSubmatch(out.String())
	if page == nil {
		t.Fatalf("no address of a page:\n%s", out.String())
	}
	if html := get(t, page[1], "text/html"); !strings.Contains(html, "<script") {
		t.Errorf("%s is no page: %.100s", page[1], html)
	}
	programs.Until(t, "three nodes with traffic", func() bool {
		var s facts.Summary
		testkit.Must(t, json.Unmarshal([]byte(get(t, page[1]+"v1/facts", "application/json")), &s))
		names := ""
		for _, n := range s.Nodes {
			if n.Decided > 0 {
				names += n.Name + " "
			}
		}
		return names == "node-1 node-2 node-3 "
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// get returns the body of an answer.
func get(t *testing.T, url, accept string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	testkit.Must(t, err)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return string(body)
}

// Without a Redis the demo prints what is missing, and how to install it.
func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := run(t.Context(), &bytes.Buffer{}, "stint", time.Second, 0)
	if err == nil || !strings.Contains(err.Error(), "hint: make deps installs it") {
		t.Errorf("error %v", err)
	}
}

// However the demo ends, its processes end too.
func TestEnded(t *testing.T) {
	testkit.RedisVersion(t) // skips where there is none
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Log("no /proc here, by which to see who lives")
		return
	}
	binary := programs.Build(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			out := new(text.OutputBuffer)
			cmd := exec.Command(os.Args[0], "-stint", binary, "-for", "1m")
			cmd.Env = append(os.Environ(), "RUN_DEMO=1", "STINT_DEMO=not of the nodes", "TMPDIR="+t.TempDir())
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has already ended if the test passed
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for said, more := out.Follow(); !strings.Contains(said, "all nodes answer"); said, more = out.Follow() {
				select {
				case <-more:
				case err := <-ended:
					t.Fatalf("it has ended: %v\n%s", err, out.String())
				case <-time.After(process.Patience):
					t.Fatalf("it does not start:\n%s", out.String())
				}
			}
			children := childrenOf(t, cmd.Process.Pid)
			if len(children) != nodes+1 {
				t.Errorf("%d processes, want a Redis and %d nodes", len(children), nodes)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil {
				t.Error("it ended with status 0")
			}
			if signal != syscall.SIGKILL && !strings.Contains(out.String(), "demo: interrupted") {
				t.Errorf("it said:\n%s", out.String())
			}
			for _, child := range children {
				programs.Until(t, "the end of process "+child, func() bool { return !lives(child) })
			}
		})
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, pid int) (children []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no list of processes: %v", err)
	}
	for _, stat := range stats {
		if _, parent := look(stat); parent == strconv.Itoa(pid) {
			children = append(children, filepath.Base(filepath.Dir(stat)))
		}
	}
	return children
}

// lives reports whether a process runs; a zombie does not.
func lives(pid string) bool {
	state, _ := look(filepath.Join("/proc", pid, "stat"))
	return state != "" && state != "Z" && state != "X"
}

// look returns the state of a process and its parent; "" if it is gone.
func look(stat string) (state, parent string) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return "", ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		return fields[0], fields[1]
	}
	return "", ""
}
