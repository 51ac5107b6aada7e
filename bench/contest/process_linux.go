package contest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Leash makes the system end a process when the benchmark ends for any reason.
func Leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Spent returns the time that a process has had from the processors.
func Spent(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat")) // the pattern is valid
	for _, name := range threads {
		var ns time.Duration
		if b, err := os.ReadFile(name); err == nil { // else the thread has ended
			_, _ = fmt.Sscan(string(b), &ns) // the system wrote it
		}
		sum += ns
	}
	return sum
}
