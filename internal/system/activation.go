package system

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// firstInherited is the number of the first file that a service manager passes.
const firstInherited = 3

// InheritedListeners returns the listening sockets that the service manager opened for this process
// (LISTEN_FDS of systemd), none if there are none. It removes the variables, so that no child and no
// second call takes the sockets again.
func InheritedListeners() ([]net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name) // the name is valid
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // none, or those of a parent
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1<<10 {
		return nil, fmt.Errorf("LISTEN_FDS is %q, not a number of sockets", count)
	}
	listeners := make([]net.Listener, 0, n)
	for fd := firstInherited; fd < firstInherited+n; fd++ {
		f := os.NewFile(uintptr(fd), "LISTEN_FD "+strconv.Itoa(fd))
		l, err := net.FileListener(f) // a copy, which children do not inherit
		_ = f.Close()                 // the copy stays open
		if err != nil {
			for _, opened := range listeners {
				_ = opened.Close() // the process ends
			}
			return nil, fmt.Errorf("file %d of LISTEN_FDS is not a listening socket of a stream: %w", fd, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}
