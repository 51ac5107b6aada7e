package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"stint/store/redis/connect"
)

// probeTimeout bounds connecting and the answer to a probe together.
const probeTimeout = 2 * time.Second

// probeAgain is after which time without an answer a second probe is sent. In a Cluster another
// server may have the partition by then, and the first probe waits for the lost one.
const probeAgain = 200 * time.Millisecond

// probeTries is how often a probe tries to connect: the client may first return a connection whose
// loss it has not noticed, or the error of a group that makes no connection (see
// [connect.NoDial]).
const probeTries = 3

// The committer probes a connection before it carries a group: when it is new, and after it was
// lost. A probe connects and reads a key that nobody writes, on its own goroutine and with its own
// timeout. Connecting takes two round trips and the first call one or two more. A caller who
// connected within its deadline would be late and give up, and the next one would begin again: a
// server half a deadline away would never be reached. A probe also measures the distance for the
// first group.

// probeLocked starts a probe of a connection, unless one started or failed a moment ago.
func (c *committer) probeLocked(conn int, client rueidis.Client, now time.Time) {
	l := &c.connections[conn]
	if l.probes > 0 && now.Sub(l.lastProbe) < probeAgain || now.Before(l.after) {
		return
	}
	l.probes++
	l.lastProbe = now
	go c.probe(conn, client, now)
}

// probeHangs reports whether a probe has been in flight for so long that another connection may be
// better.
func (l *connection) probeHangs(now time.Time) bool {
	return l.probes > 1 || l.probes == 1 && now.Sub(l.lastProbe) > connect.Pause
}

// probe probes a connection. If the server answers, the connection is healthy and waiting groups
// leave.
func (c *committer) probe(conn int, client rueidis.Client, began time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var err error
	for range probeTries {
		if err = client.Do(ctx, client.B().Get().Key(c.keyPrefix).Build()).NonRedisError(); err == nil || ctx.Err() != nil {
			break
		}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.connections[conn]
	l.probes--
	switch {
	case err != nil && l.lastAnswered.After(began): // a later probe was answered
	case err != nil:
		l.healthy, l.suspect = false, false
		l.err, l.after = err, now.Add(connect.Pause)
		c.failWaitersLocked()
	default:
		l.healthy, l.suspect, l.lastAnswered = true, false, began
		c.distance.Add(now.Sub(began), now)
		if len(c.waiting) > 0 && c.roomLocked() {
			c.sendLocked(now)
		}
	}
}

// anyHealthyLocked reports whether any connection is healthy.
func (c *committer) anyHealthyLocked() bool {
	return slices.ContainsFunc(c.connections, func(l connection) bool { return l.healthy })
}

// connectErrLocked returns why no waiter can ever leave; nil if some can.
func (c *committer) connectErrLocked() error {
	if c.inFlight > 0 || slices.ContainsFunc(c.connections, func(l connection) bool { return l.healthy || l.probes > 0 }) {
		return nil
	}
	return c.connections[0].err
}

// failWaitersLocked fails all waiters if none can ever leave.
func (c *committer) failWaitersLocked() {
	err := c.connectErrLocked()
	if err == nil {
		return
	}
	err = connect.Explain("connect", err)
	for i, p := range c.waiting {
		p.left, p.ctx, p.err = true, nil, err
		p.done <- struct{}{}
		c.waiting[i] = nil
	}
	c.waiting = c.waiting[:0]
}

// resultLocked handles the result of a group. It probes a lost connection before the next group may
// use it. A far connection whose group timed out may still work: it stays in use while it is
// probed.
func (c *committer) resultLocked(f roundTrip, err error, now time.Time) {
	l := &c.connections[f.connection]
	switch {
	case err == nil:
		c.distance.Add(now.Sub(f.left), now)
		return
	case errors.Is(err, context.Canceled), err == errPanicked, err == errReply: //nolint:errorlint // compared unwrapped
		return
	case f.far && errors.Is(err, context.DeadlineExceeded):
		l.suspect = true
	default:
		if _, answered := rueidis.IsRedisErr(err); answered {
			return
		}
		l.healthy, l.err = false, err
	}
	c.probeLocked(f.connection, f.client, now)
}
