package logging

// Quiet is after how many looks without another fault the faults count as over.
const Quiet = 60

// FaultLimiter decides when to log faults that come again and again: the first, then one in Quiet
// looks if it differs by then, and their end, when Quiet looks saw none. The zero FaultLimiter is
// ready to use, and not safe for concurrent use.
type FaultLimiter struct {
	Seen uint64 // how many there were at the last look

	named string // the one that was logged
	quiet int    // looks before another one is
	left  int    // looks for which the log's last word is still that there are such; 0: it is not
}

// Lasts says whether the log's last word is that there are such faults.
func (l *FaultLimiter) Lasts() bool { return l.left > 0 }

// Look takes how many faults there were until now, and the last of them, nil if there was none. It
// says whether to log that, and whether to log that they are over.
func (l *FaultLimiter) Look(n uint64, fault error) (tell, over bool) {
	more := n > l.Seen
	l.Seen, l.quiet = n, max(0, l.quiet-1)
	switch {
	case more:
		tell = l.left == 0 || l.quiet == 0 && fault.Error() != l.named
		l.left = Quiet
	case l.left > 0:
		l.left--
		over = l.left == 0
	}
	if tell {
		l.named, l.quiet = fault.Error(), Quiet
	}
	return tell, over
}
