package system

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestManagerHangs checks that a report to a manager that reads nothing is given up, so that the service
// still starts and stops.
func TestManagerHangs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	sender, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(sender) }()
	for err == nil { // until its queue is full
		err = syscall.Sendto(sender, []byte("x"), 0, &syscall.SockaddrUnix{Name: name})
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", name)
	done := make(chan struct{})
	go func() {
		NewNotifier().Stopping()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("Stopping waits for the manager")
	}
}
