package testkit

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memcachedProgram is the server's binary, from the Debian package memcached.
const memcachedProgram = "memcached"

// MemcachedServer is one server on a free port of the loopback interface. It ends with the test that
// started it.
type MemcachedServer struct {
	Addr string // host:port

	t     testing.TB
	args  []string
	cmd   *exec.Cmd     // nil: it is stopped
	ended chan struct{} // closed when the process has ended
}

// StartMemcached starts a server that evicts nothing (-M), with further arguments, for example "-Y",
// FILE. If memcached is not installed the test is skipped, or fails where SkipOrFail fails.
func StartMemcached(t testing.TB, args ...string) *MemcachedServer {
	t.Helper()
	return StartEvictingMemcached(t, append([]string{"-M"}, args...)...)
}

// StartEvictingMemcached is StartMemcached without -M.
func StartEvictingMemcached(t testing.TB, args ...string) *MemcachedServer {
	t.Helper()
	if _, err := exec.LookPath(memcachedProgram); err != nil {
		SkipOrFail(t, "no "+memcachedProgram+"; scripts/install-test-deps.sh installs it")
	}
	s := &MemcachedServer{t: t, args: args}
	t.Cleanup(s.Stop)
	for range attempts {
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
		if s.start() {
			return s
		}
	}
	t.Fatalf("%s did not start", memcachedProgram)
	return nil
}

// start runs the server until it accepts connections; false if it ended before.
func (s *MemcachedServer) start() bool {
	host, port, err := net.SplitHostPort(s.Addr)
	Must(s.t, err)
	s.cmd = exec.Command(memcachedProgram, append([]string{"-l", host, "-p", port, "-U", "0", "-u", "root", "-t", "2"}, s.args...)...)
	Must(s.t, s.cmd.Start())
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		cmd.Wait() //nolint:errcheck // it was killed, or could not listen
		close(ended)
	}(s.cmd, s.ended)
	for range 500 {
		if c, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
			c.Close()
			return true
		}
		select {
		case <-s.ended:
			s.cmd = nil
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

// URL returns the server's address as a URL for stores.
func (s *MemcachedServer) URL() string { return "memcached://" + s.Addr }

// Stop kills the server, and its data is lost. A second call does nothing.
func (s *MemcachedServer) Stop() {
	if s.cmd != nil {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
		<-s.ended
		s.cmd = nil
	}
}

// Restart starts the server again, empty, on the same port.
func (s *MemcachedServer) Restart() {
	s.t.Helper()
	s.Stop()
	if !s.start() {
		s.t.Fatalf("%s did not start again", memcachedProgram)
	}
}

// Do sends one command on its own connection and returns the first line of the answer.
func (s *MemcachedServer) Do(command string) string {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	Must(s.t, err)
	defer conn.Close()
	Must(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = conn.Write([]byte(command + "\r\n"))
	Must(s.t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	Must(s.t, err)
	return strings.TrimSpace(line)
}

// Freeze suspends the process, like a machine that hangs, and waits until all its threads have stopped.
// Its connections stay open.
func (s *MemcachedServer) Freeze() {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	Must(s.t, err)
	defer conn.Close()
	s.signal(Freeze)
	for range 100 {
		_, err := conn.Write([]byte("mn\r\n"))
		Must(s.t, err)
		Must(s.t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := conn.Read(make([]byte, 64)); err != nil {
			return
		}
	}
	s.t.Fatal("a suspended memcached answers")
}

// Thaw lets a frozen server run on.
func (s *MemcachedServer) Thaw() { s.signal(Thaw) }

func (s *MemcachedServer) signal(send func(*os.Process) error) {
	s.t.Helper()
	Must(s.t, send(s.cmd.Process))
}
