package system

import (
	"context"
	"math"
	"net"
	"os"
	"strconv"
	"time"
)

// longestSend is how long a report may wait for a manager that reads nothing.
const longestSend = time.Second

// Notifier reports the state of the process to the service manager that started it (NOTIFY_SOCKET of
// systemd), and that it is alive. Its methods may be called on nil, which reports nothing, and are
// safe for concurrent use. A report that cannot be sent is lost: the manager acts on its absence. So
// the first one, Ready, returns why.
type Notifier struct {
	socket   string
	watchdog time.Duration // within which a sign of life is due; 0: none is
}

// NewNotifier returns the notifier for the manager of this process, nil if it asks for no reports. It
// removes the variables, so that no child reports instead.
func NewNotifier() *Notifier {
	socket, due, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // the name is valid
	}
	if socket == "" {
		return nil
	}
	n := &Notifier{socket: socket}
	if usec, err := strconv.ParseInt(due, 10, 64); err == nil && usec > 0 && usec <= math.MaxInt64/int64(time.Microsecond) && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// Ready reports that the process serves, after its start or after a reload. status is one line for
// people.
func (n *Notifier) Ready(status string) error { return n.send("READY=1\nSTATUS=" + status) }

// Reloading reports that a reload begins; Ready ends it.
func (n *Notifier) Reloading() {
	_ = n.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic(), 10))
}

// Stopping reports that the process is about to end.
func (n *Notifier) Stopping() { _ = n.send("STOPPING=1\nSTATUS=draining") }

// Watch calls alive twice in the time within which a sign of life is due, and gives one each time it
// returns. It returns when ctx is done, or at once if none is due.
func (n *Notifier) Watch(ctx context.Context, alive func()) {
	if n == nil || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 2)
	defer tick.Stop()
	for {
		alive()
		_ = n.send("WATCHDOG=1") // see Notifier
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send sends a report.
func (n *Notifier) send(report string) error {
	if n == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_ = c.SetWriteDeadline(time.Now().Add(longestSend)) // else Stopping waits for ever for a manager that hangs
	_, err = c.Write([]byte(report))
	_ = c.Close() // it has sent
	return err
}
