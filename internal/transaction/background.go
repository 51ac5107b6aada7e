package transaction

import "sync"

// Background runs work that goes on after the call that started it has returned, until it is closed. A
// sync.WaitGroup alone cannot do this: it must not be added to while somebody waits for it. The zero Background is
// ready to use, and safe for concurrent use.
type Background struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // only added to with mu locked, and while not closed
}

// Go runs work in a goroutine. It returns false, and does not run it, if the Background is closed.
func (b *Background) Go(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(work)
	return true
}

// Close waits until all work has ended. From then on Go runs none. It may be called several times.
func (b *Background) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}
