package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for an expected event.
const patience = time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stint": main, envoyName: main})
}

// The scripts run the command line as users type it. Beside the commands of testscript there are
//
//	serve [NAME=VALUE...] [FLAG...]   start stint serve on free ports; sets $HTTP, $GRPC and $ADMIN, and $HTTP_ADDRESS and so on
//	log PATTERN                       wait for a new line of its log
//	logged PATTERN                    check for a log line that came before
//	signal HUP|TERM|INT|KILL          send it a signal
//	ended STATUS                      wait for its end; -1: killed
//	exits STATUS PROGRAM [ARG...]     run a program that ends with that status
//	http METHOD URL [BODY]            send a request; the response goes to stdout
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = new(server)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":  cmdServe,
			"log":    cmdLog,
			"logged": cmdLogged,
			"signal": cmdSignal,
			"ended":  cmdEnded,
			"exits":  cmdExits,
			"http":   cmdHTTP,
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// server is the stint serve of one script.
type server struct {
	cmd   *exec.Cmd
	ended chan error

	mu    sync.Mutex
	lines []string
	seen  int           // how many lines were matched or skipped
	more  chan struct{} // closed and replaced at each line
}

// serverKey is the key of the server among the values of a script.
type serverKey struct{}

func theServer(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

func cmdServe(ts *testscript.TestScript, _ bool, args []string) {
	s := theServer(ts)
	flags := []string{"serve"}
	env := []string{"PATH=" + ts.Getenv("PATH")}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			env = append(env, arg)
		} else {
			flags = append(flags, arg)
		}
	}
	all := strings.Join(args, " ")
	for _, listener := range []string{"http", "grpc", "admin"} {
		if !strings.Contains(all, "--"+listener+"=") && !strings.Contains(all, "STINT_"+strings.ToUpper(listener)+"=") {
			flags = append(flags, "--"+listener+"=127.0.0.1:0")
		}
	}
	ts.Check(s.run(ts.MkAbs("."), env, flags))
	ts.Defer(func() {
		// If the script passed, the process has already ended.
		_ = s.cmd.Process.Kill()
	})
	for range strings.Count(strings.Join(flags, " ")+" ", ":0 ") {
		found := address.FindStringSubmatch(s.await(ts, address))
		ts.Setenv(strings.ToUpper(found[1]), "http://"+found[2])
		ts.Setenv(strings.ToUpper(found[1])+"_ADDRESS", found[2])
	}
}

// address matches the log line with the address of a listener.
var address = regexp.MustCompile(`msg=listening listener=(\w+) address=(\S+)`)

// run starts the process.
func (s *server) run(dir string, env, flags []string) error {
	s.cmd = exec.Command("stint", flags...) // TestMain put it into the PATH
	s.cmd.Dir, s.cmd.Env = dir, env
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	s.lines, s.seen = nil, 0
	s.more, s.ended = make(chan struct{}), make(chan error, 1)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go s.read(stderr)
	return nil
}

// read reads the log until the process ends, and then its exit status.
func (s *server) read(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		s.mu.Lock()
		s.lines = append(s.lines, lines.Text())
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
	}
	s.ended <- s.cmd.Wait()
}

// failer can fail a script or a test.
type failer interface {
	Fatalf(format string, args ...any)
}

// await waits for the next line that matches, and returns it.
func (s *server) await(ts failer, pattern *regexp.Regexp) string {
	for deadline := time.After(patience); ; {
		line, more, ok := s.next(pattern)
		if ok {
			return line
		}
		select {
		case <-more:
		case err := <-s.ended:
			s.ended <- err                          // for other waiters
			if line, _, ok := s.next(pattern); ok { // the last lines of the log
				return line
			}
			ts.Fatalf("the server ended (%v) with no line like %s:\n%s", err, pattern, s.text())
		case <-deadline:
			ts.Fatalf("no line like %s:\n%s", pattern, s.text())
		}
	}
}

// next skips lines up to the first that matches. If none does, ok is false and the next line closes
// more.
func (s *server) next(pattern *regexp.Regexp) (line string, more <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.seen < len(s.lines) {
		line := s.lines[s.seen]
		s.seen++
		if pattern.MatchString(line) {
			return line, nil, true
		}
	}
	return "", s.more, false
}

func (s *server) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func cmdLog(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: log PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	ts.Logf("%s", theServer(ts).await(ts, pattern))
}

func cmdLogged(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: logged PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if text := theServer(ts).text(); !pattern.MatchString(text) {
		ts.Fatalf("no line like %s:\n%s", pattern, text)
	}
}

func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	if len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal HUP|TERM|INT|KILL")
	}
	ts.Check(theServer(ts).cmd.Process.Signal(signals[args[0]]))
}

func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: ended STATUS")
	}
	s := theServer(ts)
	select {
	case err := <-s.ended:
		status := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			status = exit.ExitCode()
		}
		if fmt.Sprint(status) != args[0] {
			ts.Fatalf("status %d, want %s:\n%s", status, args[0], s.text())
		}
	case <-time.After(patience):
		ts.Fatalf("still running after %v:\n%s", patience, s.text())
	}
}

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG...]")
	}
	status := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		status = exit.ExitCode()
	}
	if fmt.Sprint(status) != args[0] {
		ts.Fatalf("status %d, want %s", status, args[0])
	}
}

func cmdHTTP(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: http METHOD URL [BODY]")
	}
	body := ""
	if len(args) == 3 {
		body = args[2]
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, args[0], args[1], strings.NewReader(body))
	ts.Check(err)
	if token := ts.Getenv("TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	out := ts.Stdout()
	fmt.Fprintln(out, resp.Status)
	ts.Check(resp.Header.Write(out))
	fmt.Fprintln(out)
	_, err = io.Copy(out, resp.Body)
	ts.Check(err)
}
