package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// maxTogether and maxBytes bound what travels in one group: a server does nothing
	// else while it decides them, half a millisecond.
	maxTogether = 128
	maxBytes    = 64 << 10

	// maxFlights is how many groups may be on their way to one server, and enough how
	// many batches make a group that leaves while others are on their way. One group at a
	// time keeps the server waiting while callers read their answers, and the callers
	// while it decides; more and smaller groups cost the server what they save.
	maxFlights = 2
	enough     = 16

	// slow is how long a group may be away before others leave as if nothing were on its
	// way, and rest for how long a lane is not used after it failed if there is another:
	// one that fails at once would draw all groups to itself.
	slow = 5 * time.Millisecond
	rest = time.Second

	// often is how often a group gives all that it writes its end anew, on each lane: so
	// a key that somebody took the end from gets one, and most writes cost less.
	often = 5 * time.Millisecond

	// patience is how long a group may wait for its answer if no caller says how long.
	patience = 10 * time.Second
)

// committer sends batches to one server, or to one partition of a Cluster, in groups. A
// batch that finds nothing on its way leaves at once, by itself, on the caller's own
// goroutine. Those that come meanwhile wait, and leave together in one script call as soon
// as they are enough and a connection is free, or when what was on its way is back: a
// server decides takes that come together in half the time.
//
// A caller that waits no longer leaves the others alone: before the group has left it takes
// its batch out, and nothing was charged; afterwards it goes without the answer.
type committer struct {
	mu      sync.Mutex
	lanes   []lane // the first is used before the second
	flying  int    // how many are busy
	waiting []*passenger
}

// lane is a connection that carries one group at a time: where a client never has two
// commands on their way, and callers have deadlines, it needs no goroutines of its own.
type lane struct {
	link  *link
	busy  bool
	since time.Time // when its group left
	after time.Time // it failed, and is not used before
	ends  time.Time // when a group last gave all that it wrote its end anew
	renew bool      // the group on its way does; for whoever has the lane
}

// newCommitter returns a committer with a lane for each link.
func newCommitter(links []link) *committer {
	c := &committer{lanes: make([]lane, len(links))}
	for i := range links {
		c.lanes[i].link = &links[i]
	}
	return c
}

// passenger is a batch in a group.
type passenger struct {
	batch *batch
	kind  passage
	until time.Time     // when its caller waits no longer; zero: never
	left  bool          // it is on its way, under mu
	done  chan struct{} // has room for the one word that it is back

	reply []message // of decide.lua
	err   error
}

// passage is how a batch is decided. Only those of one kind travel together.
type passage int

const (
	byDecide passage = iota // by decide.lua
	byQuick                 // by quick.lua, few.lua or one.lua
	byPing                  // not at all: is anybody there?
)

// exchange has the server decide a batch, and returns its part of the answer. The client is
// that of the first lane. gone says that somebody may still read the batch.
func (c *committer) exchange(ctx context.Context, client rueidis.Client, b *batch, kind passage) (p *passenger, gone bool) {
	p = &b.seat
	if b.gone { // that one is still on its way
		p = new(passenger)
	}
	p.batch, p.kind, p.until, p.left = b, kind, time.Time{}, false
	p.reply, p.err = nil, nil
	c.mu.Lock()
	if c.flying == 0 {
		lane, own, _ := c.pickLocked(client, time.Now())
		c.mu.Unlock()
		err := errPanicked
		defer func() {
			b.gone = b.gone || err == errPanicked //nolint:errorlint // as it is
			c.land(lane, client, err)
		}()
		err = fly(ctx, own, []*passenger{p}, c.lanes[lane].renew)
		return p, false
	}
	if p.done == nil {
		p.done = make(chan struct{}, 1)
	}
	p.until, _ = ctx.Deadline()
	c.waiting = append(c.waiting, p)
	if c.flying < len(c.lanes) {
		if now := time.Now(); len(c.waiting) >= enough || c.heldUpLocked(-1, now) {
			c.departLocked(client, now)
		}
	}
	c.mu.Unlock()
	select {
	case <-p.done:
		return p, false
	case <-ctx.Done():
	}
	return c.leave(ctx, p)
}

// errPanicked stands for a panic that goes on to the caller: its lane is free again.
var errPanicked = errors.New("redis: the client panicked")

// departLocked sends a group on another lane, if one is connected.
func (c *committer) departLocked(first rueidis.Client, now time.Time) {
	if lane, client, ok := c.pickLocked(first, now); ok {
		go c.shuttle(lane, client, first, c.boardLocked())
	}
}

// pickLocked takes a free lane that is connected and does not rest, the first if it can be.
// If nothing is on its way there is always one.
func (c *committer) pickLocked(first rueidis.Client, now time.Time) (lane int, client rueidis.Client, ok bool) {
	for i := range c.lanes {
		l := &c.lanes[i]
		if l.busy || now.Before(l.after) {
			continue
		}
		client := first
		if i > 0 {
			// Who is alone needs no second connection while the server is away.
			if client = l.link.ready(c.flying > 0); client == nil {
				continue
			}
		}
		c.leaveOn(i, now)
		return i, client, true
	}
	if c.flying > 0 {
		return 0, nil, false
	}
	c.leaveOn(0, now)
	return 0, first, true
}

// leaveOn notes that a group leaves on a lane that was free.
func (c *committer) leaveOn(lane int, now time.Time) {
	l := &c.lanes[lane]
	l.busy, l.since = true, now
	if l.renew = now.Sub(l.ends) >= often; l.renew {
		l.ends = now
	}
	c.flying++
}

// heldUpLocked says whether all groups on other lanes than this have been away for long.
func (c *committer) heldUpLocked(lane int, now time.Time) bool {
	for i := range c.lanes {
		if l := &c.lanes[i]; i != lane && l.busy && now.Sub(l.since) < slow {
			return false
		}
	}
	return true
}

// leave ends the wait of a passenger whose caller waits no longer.
func (c *committer) leave(ctx context.Context, p *passenger) (*passenger, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.left {
		select {
		case <-p.done: // just now
			return p, false
		default:
		}
		return &passenger{err: explain("decide", ctx.Err())}, true
	}
	i := slices.Index(c.waiting, p)
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return &passenger{err: fmt.Errorf("redis: not asked, calls before it have no answer: %w", ctx.Err())}, false
}

// land is called when a batch that travelled alone is back: if others wait, and nothing
// else is on its way, they leave.
func (c *committer) land(lane int, first rueidis.Client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lane, client, group := c.nextLocked(lane, first, err); len(group) > 0 {
		go c.shuttle(lane, client, first, group)
	}
}

// shuttle sends a group, and more while callers wait for it.
func (c *committer) shuttle(lane int, client, first rueidis.Client, group []*passenger) {
	for len(group) > 0 {
		ctx, cancel := context.WithDeadline(context.Background(), deadline(group))
		err := fly(ctx, client, group, c.lanes[lane].renew)
		cancel()
		for _, p := range group {
			p.done <- struct{}{}
		}
		// Those who have just got their answers ask again at once where the load is
		// high. Let them run first, and they travel together.
		runtime.Gosched()
		c.mu.Lock()
		lane, client, group = c.nextLocked(lane, first, err)
		c.mu.Unlock()
	}
}

// nextLocked frees the lane of a group that is back, and returns the group that leaves
// now and its lane. Some lane stays busy while somebody waits.
func (c *committer) nextLocked(lane int, first rueidis.Client, err error) (int, rueidis.Client, []*passenger) {
	l, now := &c.lanes[lane], time.Now()
	l.busy = false
	c.flying--
	if err != nil {
		l.after = now.Add(rest)
	}
	n := len(c.waiting)
	if n == 0 || n < enough && c.flying > 0 && !c.heldUpLocked(lane, now) {
		return 0, nil, nil
	}
	lane, client, ok := c.pickLocked(first, now)
	if !ok {
		return 0, nil, nil
	}
	return lane, client, c.boardLocked()
}

// boardLocked takes those who leave next out of the waiting: all that are decided by the
// script of the first, as many as may travel together.
func (c *committer) boardLocked() []*passenger {
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

// fly sends a group as one script call and hands out the answers, or the error. renew says
// that all keys that are written get their ends anew.
func fly(ctx context.Context, client rueidis.Client, group []*passenger, renew bool) error {
	var reply []message
	var err error
	switch kind := group[0].kind; {
	case kind == byPing:
		err = client.Do(ctx, client.B().Ping().Build()).Error()
	case kind == byQuick && isFew(group):
		err = execFew(ctx, client, group[0].batch, renew)
	case kind == byQuick:
		err = execQuick(ctx, client, group, renew)
	default:
		reply, err = execDecide(ctx, client, group).ToArray()
	}
	said := err
	if said != nil && said != errReply { //nolint:errorlint // as it is
		said = explain("decide", said)
	}
	hand(group, reply, said)
	return err
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

// hand gives each of a group its part of the answer of decide.lua.
func hand(group []*passenger, reply []message, err error) {
	for _, p := range group {
		n := p.batch.written
		if p.err = err; p.err == nil && len(reply) < n {
			p.err = errReply
		}
		if p.err == nil {
			p.reply, reply = reply[:n], reply[n:]
		}
	}
}
