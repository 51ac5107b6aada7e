package connect

import (
	"context"
	"time"
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

// Distance measures how far the server is: it is the shortest recent round trip, which waited in no
// queue. It is zero before the first round trip. It is not safe for concurrent use.
type Distance struct {
	now, before time.Duration // shortest round trip since that time, and in the interval before; 0: none
	since       time.Time
}

// Add adds a round trip that ended now.
func (d *Distance) Add(took time.Duration, now time.Time) {
	if now.Sub(d.since) > recent {
		d.before, d.now, d.since = d.now, 0, now
	}
	if took = max(took, 1); d.now == 0 || took < d.now {
		d.now = took
	}
}

// Shortest returns the shortest recent round trip, 0 if there was none.
func (d *Distance) Shortest() time.Duration {
	if d.before == 0 || d.now != 0 && d.now < d.before {
		return d.now
	}
	return d.before
}

// Groups returns how many groups the server could decide in one round trip.
func (d *Distance) Groups() int { return int(min(d.Shortest()/decideTime, maxDistance)) }

// NoDeadlineContext is the context of a group on a connection that carries others at the same time.
// It ends at the group's deadline but returns none: with a deadline the client would close the
// connection then, and the others would lose their answers.
type NoDeadlineContext struct{ context.Context }

// Deadline returns no deadline.
func (NoDeadlineContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// NoDialContext is the context of a group. With it the client makes no connection, as only probes
// do: see [NoDial].
type NoDialContext struct{ context.Context }

// Value returns a value of the context, and NoDial.
func (c NoDialContext) Value(key any) any {
	if key == (NoDial{}) {
		return key
	}
	return c.Context.Value(key)
}
