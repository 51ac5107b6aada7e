package redis

import (
	"context"
	"time"

	"stint/store/redis/connect"
)

const (
	// decideTime is about what a server needs for a group. Within a round trip of n times as
	// long it could decide n of them, so that n on their way keep it busy.
	decideTime = 50 * time.Microsecond

	// maxDistance is how many groups may be on their way however far the server is.
	maxDistance = 128

	// recent is for how long a round trip counts, and up to twice that.
	recent = 5 * time.Second
)

// distance is how far a server is: the shortest round trip of late, which had no queue
// anywhere. The zero distance is of a server that nobody has asked yet.
type distance struct {
	now, before time.Duration // the shortest since that time, and in the time before; 0: none
	since       time.Time
}

// measured notes a round trip that ended now.
func (d *distance) measured(took time.Duration, now time.Time) {
	if now.Sub(d.since) > recent {
		d.before, d.now, d.since = d.now, 0, now
	}
	if took = max(took, 1); d.now == 0 || took < d.now {
		d.now = took
	}
}

// shortest returns the shortest round trip of late, 0 where there was none.
func (d *distance) shortest() time.Duration {
	if d.before == 0 || d.now != 0 && d.now < d.before {
		return d.now
	}
	return d.before
}

// groups returns how many groups the server could decide in one round trip.
func (d *distance) groups() int { return int(min(d.shortest()/decideTime, maxDistance)) }

// shared is the context of a group that leaves on a connection which carries others at the
// same time. It ends when the group's time is over, but names no deadline: the client would
// close the connection then, and with it lose the answers of the others.
type shared struct{ context.Context }

// Deadline names none.
func (shared) Deadline() (time.Time, bool) { return time.Time{}, false }

// carried is the context of a group. It makes no connection: that is for probes, see
// [connect.Carried].
type carried struct{ context.Context }

// Value is the context's, and connect.Carried.
func (c carried) Value(key any) any {
	if key == (connect.Carried{}) {
		return key
	}
	return c.Context.Value(key)
}
