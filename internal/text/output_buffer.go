package text

import (
	"strings"
	"sync"
)

// OutputBuffer keeps everything that is written to it, for example the output of a process or a
// log. It grows without a limit, so use it only for output that ends. The zero OutputBuffer is
// empty and ready for use. It is safe for concurrent use.
type OutputBuffer struct {
	mu   sync.Mutex // guards the fields below
	text strings.Builder
	more chan struct{} // closed by the next write; nil while nobody waits
}

// Write appends b, and never fails.
func (t *OutputBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(b)
}

// String returns the text so far.
func (t *OutputBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Follow returns the text so far, and a channel that is closed at the next write.
func (t *OutputBuffer) Follow() (text string, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.text.String(), t.more
}
