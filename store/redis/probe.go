package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"stint/store/redis/connect"
)

// probeTimeout is how long it may take to connect and to get an answer to a probe.
const probeTimeout = 2 * time.Second

// probeAgain is how long a probe may be under way before another one is sent after it. In a
// Cluster the server of a partition may be another one by then, and a probe that began before
// stays with the one that is gone.
const probeAgain = 200 * time.Millisecond

// probeTries is how often a probe tries to connect: the client may first hand out a connection
// that it has not seen to be lost, or what came of a group that makes none (see [connect.Carried]).
const probeTries = 3

// A connection is probed before it carries a group: when it is new, and after it was
// lost. A probe connects and reads a key that nobody writes, in its own time and behind the backs
// of callers. Connecting takes two round trips and the first call one or two more, so a caller
// who did that within his deadline would be late, end what was begun, and leave the next one
// to begin again: a server that is half a deadline away would never be reached. A probe also
// measures the distance, so that the first group travels as it should.

// probeLocked begins a probe of a connection, unless one began or failed a moment ago.
func (c *committer) probeLocked(conn int, client rueidis.Client, now time.Time) {
	l := &c.connections[conn]
	if l.probes > 0 && now.Sub(l.probed) < probeAgain || now.Before(l.after) {
		return
	}
	l.probes++
	l.probed = now
	go c.probe(conn, client, now)
}

// hangs says whether a probe has been under way for so long that another connection may be better.
func (l *connection) hangs(now time.Time) bool {
	return l.probes > 1 || l.probes == 1 && now.Sub(l.probed) > connect.Pause
}

// probe makes a connection sound, and lets those leave who wait for it.
func (c *committer) probe(conn int, client rueidis.Client, began time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var err error
	for range probeTries {
		if err = client.Do(ctx, client.B().Get().Key(c.where).Build()).NonRedisError(); err == nil || ctx.Err() != nil {
			break
		}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.connections[conn]
	l.probes--
	switch {
	case err != nil && l.proved.After(began): // one that began later knows better
	case err != nil:
		l.sound, l.doubted = false, false
		l.err, l.after = err, now.Add(connect.Pause)
		c.giveUpLocked()
	default:
		l.sound, l.doubted, l.proved = true, false, began
		c.distance.measured(now.Sub(began), now)
		if len(c.waiting) > 0 && c.roomLocked() {
			c.sendLocked(now)
		}
	}
}

// soundLocked says whether any connection is sound.
func (c *committer) soundLocked() bool {
	return slices.ContainsFunc(c.connections, func(l connection) bool { return l.sound })
}

// hopelessLocked returns why nobody who waits will ever leave; nil where somebody may.
func (c *committer) hopelessLocked() error {
	if c.inFlight > 0 || slices.ContainsFunc(c.connections, func(l connection) bool { return l.sound || l.probes > 0 }) {
		return nil
	}
	return c.connections[0].err
}

// giveUpLocked sends those home who wait, if nobody will come for them.
func (c *committer) giveUpLocked() {
	err := c.hopelessLocked()
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

// noteLocked notes what became of a group. A connection that was lost is probed before it
// is used again, and one whose group had no answer in time while it may still be there is
// probed beside.
func (c *committer) noteLocked(f roundTrip, err error, now time.Time) {
	l := &c.connections[f.connection]
	switch {
	case err == nil:
		c.distance.measured(now.Sub(f.left), now)
		return
	case errors.Is(err, context.Canceled), err == errPanicked, err == errReply: //nolint:errorlint // as they are
		return
	case f.far && errors.Is(err, context.DeadlineExceeded):
		l.doubted = true
	default:
		if _, answered := rueidis.IsRedisErr(err); answered {
			return
		}
		l.sound, l.err = false, err
	}
	c.probeLocked(f.connection, f.client, now)
}
