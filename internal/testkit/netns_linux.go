package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Net is a network with only its own loopback and its links. It ends when the test has ended, and
// all processes in it too.
type Net struct {
	t     testing.TB
	jobs  chan func()
	over  chan struct{} // closed at the end of the test
	ended chan struct{} // closed at the end of the thread
	path  string        // path of the namespace
}

// NewNet returns a network. If the kernel or the user does not allow networks, the test is skipped.
func NewNet(t testing.TB) *Net {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		SkipOrFail(t, "no ip; scripts/install-test-deps.sh installs it, in iproute2")
	}
	n := &Net{t: t, jobs: make(chan func()), over: make(chan struct{}), ended: make(chan struct{})}
	made := make(chan error)
	go n.live(made)
	if err := <-made; err != nil {
		SkipNotGranted(t, "a network of its own (CAP_SYS_ADMIN): "+err.Error())
	}
	t.Cleanup(func() { close(n.over) })
	n.run("ip", "link", "set", "lo", "up")
	return n
}

// live runs the thread that is in the network. All other threads of this process stay where they
// are.
func (n *Net) live(made chan<- error) {
	runtime.LockOSThread() // the thread ends with this goroutine
	defer close(n.ended)
	err := syscall.Unshare(syscall.CLONE_NEWNET)
	n.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), syscall.Gettid())
	made <- err
	if err != nil {
		return
	}
	for {
		select {
		case f := <-n.jobs:
			f()
		case <-n.over:
			return
		}
	}
}

// errEnded means that a network has ended.
var errEnded = errors.New("the network has ended")

// Do runs f in the network. Connections that f opens, and processes that it starts, stay in the
// network. f may end the test.
func (n *Net) Do(f func()) {
	n.t.Helper()
	ok := false
	Must(n.t, n.do(func() { f(); ok = true }))
	if !ok {
		n.t.FailNow()
	}
}

// do is Do for callers that may run after the test.
func (n *Net) do(f func()) error {
	done := make(chan struct{})
	select {
	case n.jobs <- func() { defer close(done); f() }:
	case <-n.ended:
		return errEnded
	}
	<-done
	return nil
}

// Dial opens a connection from within the network. It returns an error after the test has ended,
// because an HTTP client may still dial then.
func (n *Net) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	ended := n.do(func() {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
	})
	return conn, errors.Join(err, ended)
}

// run runs a command in the network.
func (n *Net) run(words ...string) {
	n.t.Helper()
	n.Do(func() {
		Must(n.t, command(words...))
	})
}

func command(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// Link is a cable between two networks.
type Link struct {
	Here, There string // the address at each end

	here, there *Net
	name        string
}

// links is the most links of one network.
const links = 250

// Link creates cable number i, from 0, to there. Each cable from here has its own number.
func (n *Net) Link(i int, there *Net) *Link {
	n.t.Helper()
	if i >= links {
		n.t.Fatalf("cable number %d, of %d", i, links)
	}
	l := &Link{
		Here: fmt.Sprintf("10.213.%d.1", i), There: fmt.Sprintf("10.213.%d.2", i),
		here: n, there: there, name: fmt.Sprint("cable", i),
	}
	n.run("ip", "link", "add", l.name, "type", "veth", "peer", "name", l.name, "netns", there.path)
	for _, end := range []struct {
		net  *Net
		addr string
	}{{n, l.Here}, {there, l.There}} {
		end.net.run("ip", "addr", "add", end.addr+"/24", "dev", l.name)
		end.net.run("ip", "link", "set", l.name, "up")
	}
	return l
}

// Cut interrupts the cable: packets are lost without an error.
func (l *Link) Cut() { l.here.run("ip", "link", "set", l.name, "down") }

// Mend connects it again.
func (l *Link) Mend() { l.here.run("ip", "link", "set", l.name, "up") }

// Worsen makes the cable bad in both directions: packets are late, out of order and lost if the
// kernel supports that (netem). Otherwise the cable is slow, so that packets wait, and are lost
// when too many do (tbf). It returns which of the two; "" if the kernel supports neither.
func (l *Link) Worsen() (how string) {
	l.here.t.Helper()
	for _, kind := range []string{"netem delay 50ms 40ms loss 1%", "tbf rate 64kbit burst 2kb limit 8kb"} {
		var err error
		for _, end := range []*Net{l.here, l.there} {
			end.Do(func() {
				words := append(strings.Fields("tc qdisc replace dev "+l.name+" root"), strings.Fields(kind)...)
				err = errors.Join(err, command(words...))
			})
		}
		if err == nil {
			return kind
		}
	}
	return ""
}
