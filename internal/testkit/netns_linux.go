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

// Net is a network in which there is nothing but the machine itself, and what is linked to
// it. It is gone when the test has ended, and all processes in it have.
type Net struct {
	t     testing.TB
	jobs  chan func()
	over  chan struct{} // closed where the test has ended
	ended chan struct{} // closed where the thread has
	path  string        // by which the kernel knows it
}

// NewNet returns a network. Where the kernel, or who runs the test, has no right to make one,
// the test is skipped.
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

// live is the thread that is in the network: all others of this process stay where they are.
func (n *Net) live(made chan<- error) {
	runtime.LockOSThread() // it ends with this goroutine
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

// errEnded says that a network is no more.
var errEnded = errors.New("the network has ended")

// Do runs f in the network: the connections that it opens, and the processes that it starts,
// are there for good. f may end the test.
func (n *Net) Do(f func()) {
	n.t.Helper()
	ok := false
	if err := n.do(func() { f(); ok = true }); err != nil {
		n.t.Fatal(err)
	}
	if !ok {
		n.t.FailNow()
	}
}

// do is Do for whoever may outlive the test.
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

// Dial opens a connection from within the network. It may be called when the test has ended,
// as by a client that dials for a request that is over.
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
		if err := command(words...); err != nil {
			n.t.Fatal(err)
		}
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

// links is how many there may be between one network and others.
const links = 250

// Link lays cable number i, from 0, from here to there; no other one from here may have that
// number.
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

// Cut takes the cable out: what is sent is lost, and nobody is told.
func (l *Link) Cut() { l.here.run("ip", "link", "set", l.name, "down") }

// Mend puts it back.
func (l *Link) Mend() { l.here.run("ip", "link", "set", l.name, "up") }

// Worsen makes the cable a bad one, both ways: late, out of order and with losses where the
// kernel can do that (netem), else slow, so that packets wait, and are lost when too many do
// (tbf). It returns which; "" where the kernel can do neither.
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
