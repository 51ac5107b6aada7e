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
	lines map[string]*line
}

// line is the calls that wait with one key.
type line struct {
	turns []chan struct{} // closed when it is one's turn
	ready time.Time       // the first one does not go before; zero: it may at any time
}

// waits says whether anybody waits in the line of a key.
func (q *queue) waits(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key] != nil
}

// join returns when the caller is the first of the line, and is to leave it then.
// Where ctx ends before, it has left. Where ctx will end before the first of the line
// goes, it does not join, and late is how long until that one does.
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

// stand puts the caller at the end of the line, unless that is too late for it.
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

// announce says when the first of a line will go at the soonest.
func (q *queue) announce(key string, ready time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key].ready = ready
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
