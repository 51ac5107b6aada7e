package logging

// Quiet is how many checks without a new fault end a series of faults.
const Quiet = 60

// FaultLimiter limits the log lines about repeated faults: it lets pass the first one, a different
// one after Quiet checks, and the end of the series, when Quiet checks found no new fault. The zero
// FaultLimiter is ready for use. It is not safe for concurrent use.
type FaultLimiter struct {
	Seen uint64 // number of faults at the last check

	named string // the fault that was logged last
	quiet int    // checks until another fault may be logged
	left  int    // checks until the series ends; 0: there is none, or its end was logged
}

// Lasts reports whether a series of faults was logged, but not its end.
func (l *FaultLimiter) Lasts() bool { return l.left > 0 }

// Check gets the total number of faults and the last of them, nil if there was none. It returns
// whether to log that fault, and whether to log the end of the series.
func (l *FaultLimiter) Check(n uint64, fault error) (begins, over bool) {
	more := n > l.Seen
	l.Seen, l.quiet = n, max(0, l.quiet-1)
	switch {
	case more:
		begins = l.left == 0 || l.quiet == 0 && fault.Error() != l.named
		l.left = Quiet
	case l.left > 0:
		l.left--
		over = l.left == 0
	}
	if begins {
		l.named, l.quiet = fault.Error(), Quiet
	}
	return begins, over
}
