package process

import (
	"os/exec"
	"syscall"
)

// leash makes the system end a process when the example ends for any reason.
func leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
