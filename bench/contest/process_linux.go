// Package leash ends the servers of a benchmark with it.
package leash

import (
	"os/exec"
	"syscall"
)

// Put makes the system end a process when the benchmark ends for any reason.
func Put(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
