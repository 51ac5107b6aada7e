package system

import "stint"

// Latest is the latest time at which something was decided that callers wait for each other for.
// Who reads the clock, and then waits for a lock or stands still, comes with a time from before
// what others did meanwhile: their writes would seem to be from the future. The zero Latest is
// ready. It is guarded by what guards the thing.
type Latest struct{ at stint.Instant }

// Of returns now, or the latest time if now lies before it. A now that lies further back than two
// clocks that are right may be apart is one of a clock that was set right, and counts.
func (l *Latest) Of(now stint.Instant) stint.Instant {
	if l.at < now || l.at.Future(now) {
		l.at = now
	}
	return l.at
}
