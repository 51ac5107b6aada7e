package text

import (
	"strings"
	"sync"
)

// OutputBuffer is all that was written to it: the output of a process, or a log. It is for what ends,
// as it forgets nothing. The zero Text is empty and ready to use. It is safe for concurrent
// use.
type OutputBuffer struct {
	mu   sync.Mutex // guards what follows
	text strings.Builder
	more chan struct{} // closed by the next write; nil as long as nobody waits
}

// Write adds to the text, and never fails.
func (t *OutputBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(b)
}

// String returns what was written so far.
func (t *OutputBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Follow returns what was written so far, and a channel that is closed once there is more.
func (t *OutputBuffer) Follow() (text string, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.text.String(), t.more
}
