package grpclimit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue holds a line of waiting calls for each key, first come first served.
type queue struct {
	mu    sync.Mutex
	lines map[string][]chan struct{} // closed when it is one's turn
}

// waits says whether anybody waits in the line of a key.
func (q *queue) waits(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[key]) > 0
}

// join returns when the caller is the first of the line, and is to leave it then.
// Where ctx ends before, it has left.
func (q *queue) join(ctx context.Context, key string) error {
	turn := make(chan struct{})
	q.mu.Lock()
	q.lines[key] = append(q.lines[key], turn)
	if len(q.lines[key]) == 1 {
		close(turn)
	}
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(key, slices.Index(q.lines[key], turn))
	return ctx.Err()
}

// leave lets the next one go first.
func (q *queue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(key, 0)
}

// remove takes number i out of a line, and calls the next one if that was the
// first.
func (q *queue) remove(key string, i int) {
	line := slices.Delete(q.lines[key], i, i+1)
	if len(line) == 0 {
		delete(q.lines, key)
		return
	}
	q.lines[key] = line
	if i == 0 {
		close(line[0])
	}
}

// pauses are when keys may be used again.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
	swept int // how many there were after the last sweep
}

// set pauses a key until at; it never shortens a pause.
func (p *pauses) set(key string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.until[key]) {
		p.until[key] = at
	}
	if len(p.until) < 2*p.swept+64 {
		return
	}
	now := time.Now()
	for key, at := range p.until {
		if !at.After(now) {
			delete(p.until, key)
		}
	}
	p.swept = len(p.until)
}

// left returns how long a key still pauses.
func (p *pauses) left(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.until[key]
	if !ok {
		return 0
	}
	left := time.Until(at)
	if left <= 0 {
		delete(p.until, key)
	}
	return left
}
