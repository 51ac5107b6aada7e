package web

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// socketFile returns the path of a socket that is short enough.
func socketFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "listen")
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "a.sock")
}

// A socket has its mode from the beginning, and its clients have the address of this machine. The
// file of a dead process is replaced, that of a running one is not, and Close removes the file.
func TestSocket(t *testing.T) {
	path := socketFile(t)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testkit.Must(t, err)
	left.SetUnlinkOnClose(false)
	testkit.Must(t, left.Close())
	for _, mode := range []fs.FileMode{0o600, 0o666} {
		l, err := Open(t.Context(), "unix:"+path, mode)
		testkit.Must(t, err)
		if got := Address(l); got != "unix:"+path {
			t.Errorf("address %s", got)
		}
		info, err := os.Stat(path)
		testkit.Must(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("mode %v, want %v", info.Mode().Perm(), mode)
		}
		if _, err := Open(t.Context(), "unix:"+path, mode); err == nil || err.Error() != "another process answers there" {
			t.Errorf("a second one: error %v", err)
		}
		client, err := net.Dial("unix", path)
		testkit.Must(t, err)
		defer client.Close()
		for range 2 { // the first connection is that of the second Open
			c, err := l.Accept()
			testkit.Must(t, err)
			defer c.Close()
			if got := c.RemoteAddr().String(); got != "127.0.0.1:0" {
				t.Errorf("a client at %s", got)
			}
		}
		testkit.Must(t, l.Close())
		if _, err := os.Lstat(path); err == nil {
			t.Error("the file is left behind")
		}
	}
}

// A process that is too busy to accept is running, and its file stays; a file that is no socket
// stays too.
func TestSocketOfABusyProcess(t *testing.T) {
	path := socketFile(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	testkit.Must(t, err)
	defer syscall.Close(fd)
	testkit.Must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	testkit.Must(t, syscall.Listen(fd, 0))
	for full := false; !full; {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			defer c.Close()
		}
		full = err != nil
	}
	if _, err := Open(t.Context(), "unix:"+path, 0o600); err == nil || !strings.HasPrefix(err.Error(), "another process may answer there: ") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	file := path + ".txt"
	testkit.Must(t, os.WriteFile(file, []byte("a file"), 0o600))
	if _, err := Open(t.Context(), "unix:"+file, 0o600); err == nil {
		t.Error("a file was replaced")
	}
}

// The file of a successor is not removed.
func TestSocketOfASuccessor(t *testing.T) {
	path := socketFile(t)
	first, err := Open(t.Context(), "unix:"+path, 0o600)
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(path))
	second, err := Open(t.Context(), "unix:"+path, 0o600)
	testkit.Must(t, err)
	testkit.Must(t, first.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	testkit.Must(t, second.Close())
}

// Two listeners share a gate. A connection above the limit is closed at once, counted, and logged
// once. A closed connection makes room, once.
func TestGate(t *testing.T) {
	var log bytes.Buffer
	gate := NewGate(3, Reserve{0, 1}, slog.New(slog.NewTextHandler(&log, nil)))
	open := func(name string) *GatedListener {
		l, err := Open(t.Context(), "127.0.0.1:0", 0)
		testkit.Must(t, err)
		t.Cleanup(func() { l.Close() })
		return gate.Wrap(name, l)
	}
	a, b := open("a"), open("b")
	enter := func(d *GatedListener) (client, server net.Conn) {
		client, err := net.Dial("tcp", d.Addr().String())
		testkit.Must(t, err)
		t.Cleanup(func() { client.Close() })
		server, err = d.Accept()
		testkit.Must(t, err)
		return client, server
	}
	_, one := enter(a)
	enter(a)
	enter(b)
	accepted := make(chan net.Conn)
	go func() {
		c, err := a.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	for range 3 {
		refused, err := net.Dial("tcp", a.Addr().String())
		testkit.Must(t, err)
		defer refused.Close()
		testkit.Must(t, refused.SetDeadline(time.Now().Add(time.Minute)))
		if n, err := refused.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
			t.Errorf("a connection above the bound: %d bytes, %v", n, err)
		}
	}
	if a.Refused() != 3 || b.Refused() != 0 || a.Open() != 2 || b.Open() != 1 {
		t.Errorf("refused %d and %d, open %d and %d", a.Refused(), b.Refused(), a.Open(), b.Open())
	}
	testkit.Must(t, one.Close())
	_ = one.Close() // a second Close does not count
	if a.Open() != 1 {
		t.Errorf("%d are open", a.Open())
	}
	client, err := net.Dial("tcp", a.Addr().String())
	testkit.Must(t, err)
	defer client.Close()
	(<-accepted).Close()
	if n := strings.Count(log.String(), "connections refused"); n != 1 || !strings.Contains(log.String(), "listener=a") {
		t.Errorf("%d log lines:\n%s", n, log.String())
	}
	gate.logged.Store(time.Now().Add(time.Hour).Unix()) // the clock was set back since
	gate.logRefused(b, "a reason")
	if !strings.Contains(log.String(), "listener=b") {
		t.Errorf("after the clock was put back:\n%s", log.String())
	}
}

// A connection with one of the last descriptors is refused.
func TestGateKeepsDescriptors(t *testing.T) {
	l, err := Open(context.Background(), "127.0.0.1:0", 0)
	testkit.Must(t, err)
	defer l.Close()
	d := NewGate(0, Reserve{1 << 30, 1}, slog.New(slog.DiscardHandler)).Wrap("a", l) // all are reserved
	client, err := net.Dial("tcp", l.Addr().String())
	testkit.Must(t, err)
	defer client.Close()
	go d.Accept() //nolint:errcheck // until l is closed
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// IsAt compares what a service manager opened with the addresses of a configuration. A connection of
// an inherited Unix socket has the address of this machine.
func TestInherited(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	testkit.Must(t, err)
	defer tcp.Close()
	file := socketFile(t)
	unix, err := net.Listen("unix", file)
	testkit.Must(t, err)
	inherited := Inherited(unix)
	defer inherited.Close()
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	testkit.Must(t, err)
	for _, test := range []struct {
		l       net.Listener
		address string
		want    bool
	}{
		{tcp, "127.0.0.1:" + port, true},
		{tcp, "localhost:" + port, true},
		{tcp, "127.0.0.2:" + port, false},
		{tcp, "0.0.0.0:" + port, false},
		{tcp, ":" + port, false},
		{tcp, "127.0.0.1:1", false},
		{tcp, "unix:" + file, false},
		{tcp, "", false},
		{inherited, "unix:" + file, true},
		{inherited, "unix:" + file + "2", false},
		{inherited, "127.0.0.1:" + port, false},
	} {
		if got := IsAt(test.l, test.address); got != test.want {
			t.Errorf("%v at %q: %t", test.l.Addr(), test.address, got)
		}
	}
	go func() {
		if c, err := net.Dial("unix", file); err == nil {
			c.Close()
		}
	}()
	c, err := inherited.Accept()
	testkit.Must(t, err)
	defer c.Close()
	if got := c.RemoteAddr().String(); got != "127.0.0.1:0" {
		t.Errorf("the client has the address %s", got)
	}
}
