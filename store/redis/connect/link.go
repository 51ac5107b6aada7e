package connect

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// Link makes a client when it is first needed, and tries again after a failure. It is safe for
// concurrent use.
type Link struct {
	// Target is the address and settings of the server. It must not change after the first call of
	// Client or Ready.
	Target rueidis.ClientOption

	mu     sync.Mutex
	made   rueidis.Client
	making chan struct{} // closed when the attempt ends; nil if none is running
	failed error         // error of the last attempt
	after  time.Time     // earliest time of the next attempt
	closed bool
}

// Pause is the time between two attempts to make a client.
const Pause = 100 * time.Millisecond

// ErrLost is the error of a call that had no connection and may not make one (see NoDial): nothing
// was sent.
var ErrLost = errors.New("the connection was lost")

// NoDial is a context key; any value but nil keeps the client from connecting for this call. While
// it connects, the client does not check whether a context is done: the call, and all that wait for
// the same connection, would wait until the client gives up a frozen server.
type NoDial struct{}

// refuseDial stops the dialing of calls with NoDial.
func refuseDial(ctx context.Context, _, _ string, _ syscall.RawConn) error {
	if ctx.Value(NoDial{}) != nil {
		return ErrLost
	}
	return nil
}

// Client returns the client, or why there is none. It waits for a running attempt.
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

// Ready returns the client, nil if there is none yet. wanted starts an attempt to make it.
func (l *Link) Ready(wanted bool) rueidis.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted && l.made == nil && !l.closed {
		l.begunLocked()
	}
	return l.made
}

// begunLocked starts an attempt to make the client, unless one is running or failed a moment ago.
// It reports whether one is running.
func (l *Link) begunLocked() bool {
	if l.making == nil && !time.Now().Before(l.after) {
		l.making = make(chan struct{})
		go l.connect(l.making)
	}
	return l.making != nil
}

// connect makes the client.
func (l *Link) connect(done chan struct{}) {
	target := l.Target
	target.Dialer.ControlContext, target.Sentinel.Dialer.ControlContext = refuseDial, refuseDial
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

// Close closes the client; Client then returns an error.
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
