package redis

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"stint"
)

const (
	// maxTogether and maxBytes bound what travels in one group: a server does nothing
	// else while it decides them, half a millisecond.
	maxTogether = 128
	maxBytes    = 64 << 10

	// patience is how long a group may wait for its answer if no caller says how long.
	patience = 10 * time.Second
)

// committer sends batches to one server, or to one partition of a Cluster, one group at a
// time. A batch that finds nothing on its way leaves at once, by itself, on the caller's
// own goroutine. Those that come meanwhile wait, and leave together in one script call when
// that is back: a server decides takes that come together in half the time.
//
// More groups on their way at a time were tried, 2 and 3: they are smaller, cost the
// server a third more, and take as long.
//
// A caller that waits no longer leaves the others alone: before the group has left it takes
// its batch out, and nothing was charged; afterwards it goes without the answer.
type committer struct {
	mu      sync.Mutex
	busy    bool // a group is on its way
	waiting []*passenger
}

// passenger is a batch in a group.
type passenger struct {
	batch *batch
	kind  passage
	until time.Time // when its caller waits no longer; zero: never
	left  bool      // it is on its way, under mu
	done  chan struct{}

	reply []message
	now   stint.Instant // of quick.lua
	err   error
}

// passage is how a batch is decided. Only those of one kind travel together.
type passage int

const (
	byDecide passage = iota // by decide.lua
	byQuick                 // by quick.lua or one.lua
	byPing                  // not at all: is anybody there?
)

// exchange has the server decide a batch, and returns its part of the answer. gone says
// that somebody may still read the batch.
func (c *committer) exchange(ctx context.Context, client rueidis.Client, b *batch, kind passage) (p passenger, gone bool) {
	c.mu.Lock()
	if !c.busy {
		c.busy = true
		c.mu.Unlock()
		alone := passenger{batch: b, kind: kind}
		fly(ctx, client, []*passenger{&alone})
		c.land(client)
		return alone, false
	}
	w := &passenger{batch: b, kind: kind, done: make(chan struct{})}
	w.until, _ = ctx.Deadline()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	select {
	case <-w.done:
		return *w, false
	case <-ctx.Done():
	}
	return c.leave(ctx, w)
}

// leave ends the wait of a passenger whose caller waits no longer.
func (c *committer) leave(ctx context.Context, w *passenger) (p passenger, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.left {
		select {
		case <-w.done: // just now
			return *w, false
		default:
		}
		return passenger{err: explain("decide", ctx.Err())}, true
	}
	for i, other := range c.waiting {
		if other == w {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			break
		}
	}
	return passenger{err: fmt.Errorf("redis: not asked, calls before it have no answer: %w", ctx.Err())}, false
}

// land is called when a batch that travelled alone is back: if others wait, they leave.
func (c *committer) land(client rueidis.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy = len(c.waiting) > 0; c.busy {
		go c.shuttle(client, c.boardLocked())
	}
}

// shuttle sends groups until nobody waits.
func (c *committer) shuttle(client rueidis.Client, group []*passenger) {
	for len(group) > 0 {
		ctx, cancel := context.WithDeadline(context.Background(), deadline(group))
		fly(ctx, client, group)
		cancel()
		for _, p := range group {
			close(p.done)
		}
		// Those who have just got their answers ask again at once where the load is
		// high. Let them run first, and they travel together.
		runtime.Gosched()
		c.mu.Lock()
		group = c.boardLocked()
		c.busy = len(group) > 0
		c.mu.Unlock()
	}
}

// boardLocked takes those who leave next out of the waiting: all that are decided by the
// script of the first, as many as may travel together.
func (c *committer) boardLocked() []*passenger {
	if len(c.waiting) == 0 {
		return nil
	}
	first, parts, bytes := c.waiting[0], 0, 0
	var group []*passenger
	rest := c.waiting[:0]
	for _, p := range c.waiting {
		with := p.kind == first.kind && (p.kind != byQuick || p.batch.quickWith(first.batch))
		if with {
			parts += len(p.batch.parts)
			bytes += p.batch.size
		}
		if !with || len(group) > 0 && (parts > maxTogether || bytes > maxBytes) {
			rest = append(rest, p)
			continue
		}
		p.left = true
		group = append(group, p)
	}
	clear(c.waiting[len(rest):])
	c.waiting = rest
	return group
}

// deadline returns when the last of a group waits no longer.
func deadline(group []*passenger) time.Time {
	last := time.Time{}
	for _, p := range group {
		if p.until.IsZero() {
			return time.Now().Add(patience)
		}
		if p.until.After(last) {
			last = p.until
		}
	}
	return last
}

// fly sends a group as one script call and hands out the answers.
func fly(ctx context.Context, client rueidis.Client, group []*passenger) {
	var reply []message
	var err error
	switch group[0].kind {
	case byPing:
		err = client.Do(ctx, client.B().Ping().Build()).Error()
	case byQuick:
		reply, err = execQuick(ctx, client, group).ToArray()
	default:
		reply, err = execDecide(ctx, client, group).ToArray()
	}
	if err != nil {
		err = explain("decide", err)
	}
	hand(group, reply, err)
}

// execDecide has batches decided by decide.lua.
func execDecide(ctx context.Context, client rueidis.Client, group []*passenger) rueidis.RedisResult {
	first := group[0].batch
	if len(group) == 1 && first.epoch == "" {
		return scripts[first.kinds].Exec(ctx, client, first.keys, first.args)
	}
	var kinds kindSet
	var keys, args []string
	epoch := ""
	for _, p := range group {
		kinds |= p.batch.kinds
		epoch = max(epoch, p.batch.epoch)
		keys, args = append(keys, p.batch.keys...), append(args, p.batch.args...)
	}
	if epoch != "" {
		keys = append(keys, epoch)
	}
	return scripts[kinds].Exec(ctx, client, keys, args)
}

// hand gives each of a group its part of the answer.
func hand(group []*passenger, reply []message, err error) {
	now := int64(0)
	if group[0].kind == byQuick && err == nil {
		if len(reply) == 0 {
			err = errReply
		} else if now, err = reply[0].AsInt64(); err == nil {
			reply = reply[1:]
		}
	}
	for _, p := range group {
		n := p.batch.written
		if p.kind == byQuick {
			n = len(p.batch.parts)
		}
		if p.err = err; err == nil && len(reply) < n {
			p.err = errReply
		}
		if p.err == nil {
			p.reply, reply = reply[:n], reply[n:]
			p.now = stint.Instant(now)
		}
	}
}
