package connect

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// Link is the way to the server: a client that is made when it is first needed, and
// tried again where that fails. It is safe for concurrent use.
type Link struct {
	// Target says where the server is. It is not changed any more once somebody asks for the client.
	Target rueidis.ClientOption

	mu     sync.Mutex
	made   rueidis.Client
	making chan struct{} // closed when an attempt is over; nil while there is none
	failed error         // of the last attempt
	after  time.Time     // no attempt before
	closed bool
}

// Pause is the time between two attempts to make a client.
const Pause = 100 * time.Millisecond

// ErrLost says that a call found no connection, and was told not to make one: nothing was asked.
var ErrLost = errors.New("the connection was lost")

// Carried is the key of a context's value, anything but nil, of a call that makes no
// connection. The client does not look whether a context is done while it connects: a call, and
// with it all that wait for the same connection, would stay until a server that is frozen is
// given up.
type Carried struct{}

// refuse has no connection made for calls that are to make none.
func refuse(ctx context.Context, _, _ string, _ syscall.RawConn) error {
	if ctx.Value(Carried{}) != nil {
		return ErrLost
	}
	return nil
}

// Client returns the client, or why there is none.
func (l *Link) Client(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, rueidis.ErrClosing
	case l.made != nil:
		defer l.mu.Unlock()
		return l.made, nil
	case !l.begunLocked():
		defer l.mu.Unlock()
		return nil, l.failed
	}
	making := l.making
	l.mu.Unlock()
	select {
	case <-making:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		return nil, l.failed
	}
	return l.made, nil
}

// Ready returns the client if it is there, or else nil, and begins to make it if wanted.
func (l *Link) Ready(wanted bool) rueidis.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted && l.made == nil && !l.closed {
		l.begunLocked()
	}
	return l.made
}

// begunLocked begins an attempt to make the client if none is under way, nor was a moment ago.
// It says whether one is.
func (l *Link) begunLocked() bool {
	if l.making == nil && !time.Now().Before(l.after) {
		l.making = make(chan struct{})
		go l.make(l.making)
	}
	return l.making != nil
}

// make makes the client.
func (l *Link) make(done chan struct{}) {
	target := l.Target
	target.Dialer.ControlContext, target.Sentinel.Dialer.ControlContext = refuse, refuse
	client, err := rueidis.NewClient(target)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making = nil
	close(done)
	switch {
	case err != nil:
		l.failed, l.after = err, time.Now().Add(Pause)
		if client != nil {
			client.Close()
		}
	case l.closed:
		client.Close()
	default:
		l.made, l.failed = client, nil
	}
}

// Close closes the client; nobody gets one any more.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.failed = rueidis.ErrClosing
	if l.made != nil {
		l.made.Close()
		l.made = nil
	}
}
