// Package tale says when to log faults that come again and again.
package tale

// Quiet is how many looks without another fault end the tale of them.
const Quiet = 60

// Tale is what the log says of such faults: when they begin, once in Quiet looks if it is another
// one by then, and when there was none for so many. The zero Tale is ready to use, and not safe
// for concurrent use.
type Tale struct {
	Seen uint64 // how many there were at the last look

	named string // the one that was logged
	quiet int    // looks before another one is
	left  int    // looks for which the log's last word is still that there are such; 0: it is not
}

// Lasts says whether the log's last word is that there are such faults.
func (t *Tale) Lasts() bool { return t.left > 0 }

// Look takes how many faults there were until now, and the last of them, nil if there was none. It
// says whether to log that, and whether to log that they are over.
func (t *Tale) Look(n uint64, fault error) (tell, over bool) {
	more := n > t.Seen
	t.Seen, t.quiet = n, max(0, t.quiet-1)
	switch {
	case more:
		tell = t.left == 0 || t.quiet == 0 && fault.Error() != t.named
		t.left = Quiet
	case t.left > 0:
		t.left--
		over = t.left == 0
	}
	if tell {
		t.named, t.quiet = fault.Error(), Quiet
	}
	return tell, over
}
