package redis

import (
	"context"
	"time"

	"stint/store/redis/connect"
)

const (
	// decideTime is about how long a server needs for a group. While n groups are in flight, a
	// server n of these times away is always busy.
	decideTime = 50 * time.Microsecond

	// maxDistance is the most groups that may be in flight, however far the server is.
	maxDistance = 128

	// recent is for how long a measured round trip counts: this long to twice as long.
	recent = 5 * time.Second
)

// distance measures how far the server is: the shortest recent round trip, which waited in no
// queue. It is zero before the first one.
type distance struct {
	now, before time.Duration // shortest round trip since that time, and in the interval before; 0: none
	since       time.Time
}

// add adds a round trip that ended now.
func (d *distance) add(took time.Duration, now time.Time) {
	if now.Sub(d.since) > recent {
		d.before, d.now, d.since = d.now, 0, now
	}
	if took = max(took, 1); d.now == 0 || took < d.now {
		d.now = took
	}
}

// shortest returns the shortest recent round trip, 0 if there was none.
func (d *distance) shortest() time.Duration {
	if d.before == 0 || d.now != 0 && d.now < d.before {
		return d.now
	}
	return d.before
}

// groups returns how many groups the server could decide in one round trip.
func (d *distance) groups() int { return int(min(d.shortest()/decideTime, maxDistance)) }

// noDeadlineContext is the context of a group on a connection that carries others at the same time.
// It ends at the group's deadline but returns none: with a deadline the client would close the
// connection then, and the others would lose their answers.
type noDeadlineContext struct{ context.Context }

// Deadline returns no deadline.
func (noDeadlineContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// noDialContext is the context of a group. With it the client makes no connection, as only probes
// do: see [connect.NoDial].
type noDialContext struct{ context.Context }

// Value returns a value of the context, and connect.NoDial.
func (c noDialContext) Value(key any) any {
	if key == (connect.NoDial{}) {
		return key
	}
	return c.Context.Value(key)
}
