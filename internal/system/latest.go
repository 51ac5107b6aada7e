package system

import "stint"

// Latest is the latest time of a decision on some state. A goroutine that reads the clock, and then
// waits for a lock or is suspended, has a time before the decisions that others made meanwhile:
// their writes would seem to be in the future. The zero Latest is ready for use. The lock of the
// state guards it.
type Latest struct{ at stint.Instant }

// Of returns the later one of now and the latest time. If now is earlier by more than two correct
// clocks may differ, the clock was set back, and Of returns now.
func (l *Latest) Of(now stint.Instant) stint.Instant {
	if l.at < now || l.at.Future(now) {
		l.at = now
	}
	return l.at
}
