package main

import (
	"os/exec"
	"syscall"
)

// leash has the system end a process when the benchmark ends, however that happens.
func leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
