package eventual

import (
	"sync"
	"sync/atomic"
	"time"

	"stint"
)

// server is one partition of the store, with a clock of its own. An answer contains the time at
// which the server decided, which is too early by the time the answer takes to arrive. The
// fastest of the recent answers is the most exact and sets the clock. A clock that followed each
// answer would jump with each slow one, and units would come back at once with it.
type server struct {
	place      stint.Key    // place of some key there
	failing    atomic.Int64 // since when no call succeeds, by the node's clock; 0: calls succeed
	ahead      atomic.Int64 // its clock minus the node's, microseconds
	lastAnswer atomic.Int64 // time of the last answer, by the node's clock

	mu           sync.Mutex    // guards the fields below
	stretchStart stint.Instant // start of the current stretch
	best         int64         // largest difference of the clocks in it
}

const (
	// clockStretch is how long an answer may set the clock.
	clockStretch = stint.Instant(10 * time.Second / time.Microsecond)

	// maxDelay is longer than any answer takes. A clock that is further behind was set back, or is
	// that of another server.
	maxDelay = int64(time.Second / time.Microsecond)
)

// now returns the time by the server's clock, or a little less.
func (h *server) now(now stint.Instant) stint.Instant {
	return min(max(1, now+stint.Instant(h.ahead.Load())), stint.MaxInstant)
}

// setClock sets the clock from an answer with the time at, received at now.
func (h *server) setClock(at, now stint.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAnswer.Store(int64(now))
	said, ahead := int64(at-now), h.ahead.Load()
	switch {
	case h.stretchStart == 0, said > ahead, ahead-said > maxDelay:
		h.ahead.Store(said)
		h.stretchStart, h.best = now, said
	case now-h.stretchStart > clockStretch:
		h.ahead.Store(max(h.best, said))
		h.stretchStart, h.best = now, said
	default:
		h.best = max(h.best, said)
	}
}
