//go:build unix

package testkit

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Freeze stops a process from running, as a machine that hangs does.
func Freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process run on.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// OwnGroup makes what a command starts end with it, by KillGroup.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup ends a process of OwnGroup and all that it has started.
func KillGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// LockFile waits until no other process has the file locked, and locks it until it is
// closed.
func LockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// CapFiles lets this process write no file beyond so many bytes: a write fails, as on a
// disk that is full.
func CapFiles(most uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most})
}

// BusyTime returns how long this process has been computing.
func BusyTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}
