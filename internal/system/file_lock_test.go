package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stint/internal/testkit"
)

// holdEnv is the variable with the file that a child process of this test locks.
const holdEnv = "STINT_TEST_HOLD"

func TestMain(m *testing.M) {
	if name := os.Getenv(holdEnv); name != "" {
		hold(name)
	}
	os.Exit(m.Run())
}

// hold locks a file until standard input ends, when the parent ends.
func hold(name string) {
	if _, err := TakeLock(name); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// Only one holder at a time has the lock, also within one process, and Release leaves no file.
func TestTake(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counts")
	first, err := TakeLock(name)
	testkit.Must(t, err)
	_, err = TakeLock(name)
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Process != os.Getpid() || !errors.Is(err, ErrHeld) {
		t.Errorf("second: error %v", err)
	}
	testkit.Must(t, first.Release())
	if left, err := os.ReadDir(filepath.Dir(name)); len(left) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	again, err := TakeLock(name)
	testkit.Must(t, err)
	testkit.Must(t, again.Release())
	if _, err := TakeLock(filepath.Join(name, "none", "counts")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: error %v", err)
	}
}

// If the lock file is a link, TakeLock does not follow it, and its target stays unchanged.
func TestTakeFollowsNoLink(t *testing.T) {
	name, other := filepath.Join(t.TempDir(), "counts"), filepath.Join(t.TempDir(), "other")
	testkit.Must(t, os.WriteFile(other, []byte("precious"), 0o600))
	if err := os.Symlink(other, name+".lock"); err != nil {
		t.Fatal(err)
	}
	if l, err := TakeLock(name); err == nil {
		t.Errorf("taken: %v", l.Release())
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "precious" {
		t.Errorf("it holds %q now, %v", text, err)
	}
}

// A lock ends with its process, however that ends, and the remaining file does not lock.
func TestLockDiesWithItsProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counts")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdEnv+"="+name)
	_, err := child.StdinPipe()
	testkit.Must(t, err)
	out, err := child.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, child.Start())
	said := make([]byte, 64)
	n, err := out.Read(said)
	if err != nil || string(said[:n]) != "held\n" {
		t.Fatalf("the child says %q, %v", said[:n], err)
	}
	_, err = TakeLock(name)
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Process != child.Process.Pid {
		t.Errorf("while it lives: error %v, want process %d", err, child.Process.Pid)
	}
	testkit.Must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	if _, err := os.Stat(name + ".lock"); err != nil {
		t.Errorf("the file of a killed process: %v", err)
	}
	lock, err := TakeLock(name)
	testkit.Must(t, err)
	testkit.Must(t, lock.Release())
}

// However many goroutines try, and however often the file is created and removed, only one has the
// lock.
func TestTakeAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counts")
	var holders, taken atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				lock, err := TakeLock(name)
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two have the lock")
				}
				taken.Add(1)
				holders.Add(-1)
				testkit.Must(t, lock.Release())
			}
		})
	}
	group.Wait()
	if taken.Load() == 0 {
		t.Error("nobody got the lock")
	}
}

// LinkTarget follows links to files and folders, and to names that do not exist yet.
func TestTarget(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	testkit.Must(t, err)
	for _, dir := range []string{"disk/deep", "links"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(root, "disk/counts"), nil, 0o600))
	for link, to := range map[string]string{
		"links/near": "far", "links/far": filepath.Join(root, "disk/counts"), "links/new": "../disk/new",
		"links/folder": "../disk/deep", "links/up": "folder/../counts", "links/loop": "loop",
	} {
		testkit.Must(t, os.Symlink(to, filepath.Join(root, link)))
	}
	for name, want := range map[string]string{
		"disk/counts": "disk/counts", "disk/none": "disk/none", "links/near": "disk/counts", "links/new": "disk/new",
		"links/folder/x": "disk/deep/x", "links/up": "disk/counts",
	} {
		if got, err := LinkTarget(filepath.Join(root, name)); err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s leads to %s, %v; want %s", name, got, err, want)
		}
	}
	if _, err := LinkTarget(filepath.Join(root, "links/loop")); err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Errorf("a loop: error %v", err)
	}
	if _, err := LinkTarget(filepath.Join(root, "none/counts")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: error %v", err)
	}
}
