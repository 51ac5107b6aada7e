package sim

import "stint"

// nextEpoch returns the epoch for an answer at now: e itself, or a lost one that begins now. same means
// that the server is the one that wrote e; known is the epoch that the asker remembers, 0 for none.
func nextEpoch(e stint.Epoch, now stint.Instant, same bool, known stint.Instant) stint.Epoch {
	switch {
	case e.Began == 0:
		return stint.Epoch{Began: now, Lost: known != 0}
	case !same, known > e.Began, known != 0 && known != e.Began && !e.Lost:
		return stint.Epoch{Began: max(now, e.Began+1), Lost: true}
	}
	return e
}
