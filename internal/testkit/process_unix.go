//go:build unix

package testkit

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Freeze suspends a process, like a machine that hangs.
func Freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process run on.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// OwnGroup gives a command its own process group, so that KillGroup also ends its child processes.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup ends a process of OwnGroup and its child processes.
func KillGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// LockFile waits until no other process has the file locked, and locks it until it is
// closed.
func LockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// CapFiles limits the size of files that this process writes: a write beyond most bytes fails, as
// on a full disk.
func CapFiles(most uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most})
}

// BusyTime returns the processor time that this process has used.
func BusyTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}
