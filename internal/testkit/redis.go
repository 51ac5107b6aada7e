package testkit

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/text"
)

// program is the server's binary, from the Debian package redis-server.
const program = "redis-server"

// attempts is how often starting a server is tried: another process may take the port before the
// server does.
const attempts = 5

// RedisServer is one server on a free port of the loopback interface. It writes nothing to disk,
// and ends with the test that started it.
type RedisServer struct {
	Addr string // host:port

	t      testing.TB
	file   string // settings file, "" for none
	args   []string
	env    []string // added to the environment of this process
	port   int
	mu     sync.Mutex
	cmd    *exec.Cmd
	output *lines
}

// StartRedis starts a server with further arguments, for example "--maxmemory", "1mb". If
// redis-server is not installed the test is skipped, or fails where SkipOrFail fails.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		SkipOrFail(t, "no "+program+"; scripts/install-test-deps.sh installs it")
	}
	return run(t, &RedisServer{t: t, args: args})
}

// RedisVersion returns the first two numbers of the server's version, for example 7.0; 6.2 is the
// oldest that is tested.
func RedisVersion(t testing.TB) float64 {
	t.Helper()
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		SkipOrFail(t, "no "+program+"; scripts/install-test-deps.sh installs it")
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	var version float64
	if _, err := fmt.Sscanf(rest, "%f", &version); err != nil {
		t.Fatalf("%s --version: %q: %v", program, out, err)
	}
	return version
}

// run starts a server with the given fields.
func run(t testing.TB, s *RedisServer) *RedisServer {
	t.Helper()
	t.Cleanup(s.Stop)
	for range attempts {
		s.port = Port(t, busOffset)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if s.start() {
			return s
		}
	}
	t.Fatalf("%s did not start:\n%s", program, s.output)
	return nil
}

// URL returns the server's address as a URL for stores.
func (s *RedisServer) URL() string { return "redis://" + s.Addr }

// start runs the server until it is ready; false if it ended before.
func (s *RedisServer) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", s.t.TempDir(), "--daemonize", "no",
	}, s.args...)
	if s.file != "" {
		args = append([]string{s.file}, args...)
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.output = &lines{ready: make(chan struct{})}
	pipe, err := s.cmd.StdoutPipe()
	Must(s.t, err)
	Must(s.t, s.cmd.Start())
	ended := make(chan struct{})
	go s.output.read(bufio.NewScanner(pipe), ended)
	select {
	case <-s.output.ready:
		return true
	case <-ended:
		s.cmd.Wait() //nolint:errcheck // its output has the reason
		s.cmd = nil
		return false
	}
}

// Stop kills the server, and its data is lost. A second call does nothing.
func (s *RedisServer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
	s.cmd.Wait()         //nolint:errcheck // it was killed
	s.cmd = nil
}

// Restart starts the stopped server again, empty, on the same port.
func (s *RedisServer) Restart() {
	s.t.Helper()
	s.Stop()
	if !s.start() {
		s.t.Fatalf("%s did not start again:\n%s", program, s.output)
	}
}

// Freeze suspends the process, like a machine that hangs. Its connections stay open.
func (s *RedisServer) Freeze() { s.signal(Freeze) }

// Thaw lets a frozen server run on.
func (s *RedisServer) Thaw() { s.signal(Thaw) }

func (s *RedisServer) signal(send func(*os.Process) error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatal("the server is stopped")
	}
	Must(s.t, send(s.cmd.Process))
}

// Do sends one command on its own connection and returns the answer as text: the value of a string,
// number or error (with its type prefix), or the elements of a list, one a line.
func (s *RedisServer) Do(words ...string) string {
	s.t.Helper()
	return s.do(words)
}

// As is Do as a user with a password.
func (s *RedisServer) As(user, password string, words ...string) string {
	s.t.Helper()
	return s.do([]string{"AUTH", user, password}, words)
}

// do sends commands on one connection and returns the answer to the last.
func (s *RedisServer) do(commands ...[]string) (answered string) {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	Must(s.t, err)
	defer conn.Close()
	Must(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	answers := bufio.NewReader(conn)
	for _, words := range commands {
		request := fmt.Appendf(nil, "*%d\r\n", len(words))
		for _, word := range words {
			request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
		}
		_, err := conn.Write(request)
		Must(s.t, err)
		answer, err := readReply(answers)
		if err != nil {
			s.t.Fatalf("%s: %v", strings.Join(words, " "), err)
		}
		answered = strings.Join(answer, "\n")
	}
	return answered
}

// CPU returns the processor time that the server has used.
func (s *RedisServer) CPU() time.Duration {
	s.t.Helper()
	var sum float64
	for line := range strings.Lines(s.Do("INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			seconds, err := strconv.ParseFloat(value, 64)
			Must(s.t, err)
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// busOffset is the difference between the port of a Cluster node and its port for other nodes.
const busOffset = 10000

// lines keeps the output of a server.
type lines struct {
	text.OutputBuffer
	ready chan struct{}
}

func (l *lines) read(from *bufio.Scanner, ended chan struct{}) {
	defer close(ended)
	ready := false
	for from.Scan() {
		fmt.Fprintln(l, from.Text())
		if !ready && (strings.Contains(from.Text(), "Ready to accept connections") || strings.Contains(from.Text(), "+monitor master")) {
			ready = true
			close(l.ready)
		}
	}
}
