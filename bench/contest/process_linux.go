package contest

import (
	"os/exec"
	"syscall"
)

// Leash makes the system end a process when the benchmark ends for any reason.
func Leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
