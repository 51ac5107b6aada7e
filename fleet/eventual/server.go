package eventual

import (
	"sync"
	"sync/atomic"
	"time"

	"stint"
)

// server is a part of the store, with a clock of its own. An answer was made before it came, so
// what it says of the clock is too little, by the time of its way. The answer that was
// quickest of late says most, and holds: a clock that followed each would leap with every
// slow one, and give out at once what came in meanwhile.
type server struct {
	place      stint.Key    // of some key there
	failing    atomic.Int64 // since when nothing comes through, by the node's clock; 0: it does
	ahead      atomic.Int64 // of its clock before the node's, microseconds
	lastAnswer atomic.Int64 // when the last answer came, by the node's clock

	mu           sync.Mutex    // guards what follows
	stretchStart stint.Instant // when the present stretch began
	best         int64         // of it
}

const (
	// clockStretch is how long an answer says what time it is.
	clockStretch = stint.Instant(10 * time.Second / time.Microsecond)

	// maxDelay is more than any answer takes: a clock that is so much behind was set back, or
	// is that of another server.
	maxDelay = int64(time.Second / time.Microsecond)
)

// now returns what the clock of the store shows, or a little less.
func (h *server) now(now stint.Instant) stint.Instant {
	return min(max(1, now+stint.Instant(h.ahead.Load())), stint.MaxInstant)
}

// setClock sets the clock by an answer that came by now.
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
