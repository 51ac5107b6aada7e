package grpclimit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue has a line of waiting calls for each key, in order of arrival.
type queue struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line are the waiting calls of one key.
type line struct {
	turns []chan struct{} // one channel for each call, closed when the call becomes the first
	ready time.Time       // earliest time for the first call; zero if unknown
}

// waits reports whether a call waits in the line of a key.
func (q *queue) waits(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key] != nil
}

// join waits until the caller is the first of the line; then the caller must call leave. If ctx
// ends earlier, join removes the caller from the line and returns an error. If ctx will end before
// even the first of the line can be sent, join returns an error immediately, and late is the time
// until then.
func (q *queue) join(ctx context.Context, key string) (late time.Duration, err error) {
	turn, late := q.stand(ctx, key)
	if late > 0 {
		return late, context.DeadlineExceeded
	}
	select {
	case <-turn:
		return 0, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(key, slices.Index(q.lines[key].turns, turn))
	return 0, ctx.Err()
}

// stand appends the caller to the line, unless its deadline is too early.
func (q *queue) stand(ctx context.Context, key string) (turn chan struct{}, late time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn = make(chan struct{})
	l := q.lines[key]
	if l == nil {
		close(turn)
		q.lines[key] = &line{turns: []chan struct{}{turn}}
		return turn, 0
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(l.ready) {
		return nil, max(time.Until(l.ready), 1)
	}
	l.turns = append(l.turns, turn)
	return turn, 0
}

// announce sets the earliest time for the first call of a line.
func (q *queue) announce(key string, ready time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key].ready = ready
}

// leave removes the first call of a line.
func (q *queue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(key, 0)
}

// remove removes call i from a line, and wakes the next one if i was the first.
func (q *queue) remove(key string, i int) {
	l := q.lines[key]
	l.turns = slices.Delete(l.turns, i, i+1)
	if len(l.turns) == 0 {
		delete(q.lines, key)
		return
	}
	if i == 0 {
		l.ready = time.Time{}
		close(l.turns[0])
	}
}

// pauses are the ends of the pauses of keys.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
	swept int // number of entries after the last sweep
}

// set pauses a key until at. It never shortens a pause.
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

// left returns the remaining pause of a key.
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
