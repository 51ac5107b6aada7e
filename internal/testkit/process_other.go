//go:build !unix

package testkit

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// These functions exist on Unix only; tests that need them fail on other systems.

// Freeze is not supported on this system.
func Freeze(*os.Process) error { return errors.ErrUnsupported }

// Thaw is not supported on this system.
func Thaw(*os.Process) error { return errors.ErrUnsupported }

// OwnGroup does nothing on this system.
func OwnGroup(*exec.Cmd) {}

// KillGroup ends only the process itself on this system.
func KillGroup(p *os.Process) error { return p.Kill() }

// LockFile is not supported on this system.
func LockFile(*os.File) error { return errors.ErrUnsupported }

// CapFiles is not supported on this system.
func CapFiles(uint64) error { return errors.ErrUnsupported }

// BusyTime is not supported on this system.
func BusyTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
