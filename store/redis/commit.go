package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"stint/internal/transaction"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

const (
	// maxTogether (parts) and maxBytes bound a group. A server does nothing else while it decides
	// one: at most half a millisecond.
	maxTogether = 128
	maxBytes    = 64 << 10

	// maxInFlight is how many groups may be in flight to a near server. minGroup is how many
	// batches must wait for a group to leave while others are in flight. With one group in flight
	// at a time the server waits while callers read their answers, and the callers wait while it
	// decides; with more and smaller groups the server spends on calls what it saves.
	maxInFlight = 2
	minGroup    = 16

	// slowAfter is after which time in flight a group no longer keeps others from leaving.
	slowAfter = 5 * time.Millisecond

	// renewInterval is how often a group on each connection sets the TTL of all keys that it
	// writes. So a key whose TTL somebody removed gets one again, and most writes cost less.
	renewInterval = 5 * time.Millisecond
)

// committer sends batches to one server, or to one partition of a Cluster, in groups. A batch
// leaves at once if no group is in flight. While one is, the distance to the server decides, which
// the committer measures:
//
//   - Near: batches wait, and leave together in one script call as soon as there are enough of
//     them and a connection is free, or when the group in flight is back. Takes that a server
//     decides together cost it half the time.
//   - Far: batches leave at once too, as long as fewer groups are in flight than the server
//     could decide in one round trip. If a call waited for the one before it, it would take
//     two round trips, and a deadline of one and a half would fail with a healthy server.
//
// Goroutines of the committer make connections, also after a loss. Callers wait for that as for a
// group, and fail at once if it fails.
//
// A caller that stops waiting does not affect the others. Before its group has left it takes its
// batch out, and nothing was charged; after that it returns without the answer.
type committer struct {
	mu                sync.Mutex
	connections       []connection // used in this order
	inFlight          int          // number of groups in flight
	waiting           []*waiter
	distance          connect.Distance
	first             rueidis.Client // client of the first connection; nil before the first call
	keyPrefix         string         // prefix of all keys
	sharesConnections bool           // other committers use the same connections
}

// connection is one connection to the server. Near a server it carries one group at a time: a
// client that never has two commands in flight needs no goroutines of its own, as callers have
// deadlines.
type connection struct {
	link     *connect.Link
	inFlight int       // number of groups in flight
	since    time.Time // when the last of them was sent
	renewed  time.Time // when a group last set the TTL of all keys that it wrote

	healthy      bool      // the server answered a probe on it; only healthy connections are used
	suspect      bool      // its last answer came too late; used only if no other is better
	probes       int       // number of probes in flight
	lastProbe    time.Time // start of the last probe
	lastAnswered time.Time // start of the last probe that was answered
	after        time.Time // earliest time of the next probe
	err          error     // why it is not healthy; nil if it is
}

// roundTrip is a group in flight, or about to be sent.
type roundTrip struct {
	connection int
	client     rueidis.Client
	left       time.Time
	renew      bool // the group sets the TTL of all keys that it writes
	far        bool // other groups may be in flight on the same connection
}

// newCommitter returns a committer with one connection for each link. prefix is the beginning of
// its keys.
func newCommitter(links []connect.Link, prefix string) *committer {
	c := &committer{connections: make([]connection, len(links)), keyPrefix: prefix}
	for i := range links {
		c.connections[i].link = &links[i]
	}
	return c
}

// waiter is a batch that waits for its group to leave or for its answer.
type waiter struct {
	batch *batch
	kind  method
	ctx   context.Context // the caller's context; nil once the group has left
	until time.Time       // the caller's deadline once the group has left; zero: none
	left  bool            // the group has left; guarded by mu
	done  chan struct{}   // receives once when the group is back; buffered

	reply []message // answer of decide.lua
	texts []string  // answer of lease.lua
	epoch string    // answer of byPing: the epoch as the server has it
	err   error
}

// method is how the server decides a batch. The batches of a group have the same.
type method int

const (
	byDecide method = iota // by decide.lua
	byQuick                // by quick.lua, few.lua or one.lua
	byLease                // by lease.lua
	byPing                 // nothing is decided: reads the epoch, to see that the server answers
)

// exchange sends a batch with its group and returns the answer. client belongs to the first
// connection. inUse reports that the sender may still read the batch.
func (c *committer) exchange(ctx context.Context, client rueidis.Client, b *batch, kind method) (p *waiter, inUse bool) {
	p = &b.slot
	if b.inUse { // that waiter is still in flight
		p = new(waiter)
	}
	p.batch, p.kind, p.ctx, p.left = b, kind, nil, false
	p.until = time.Time{}
	p.reply, p.texts, p.epoch, p.err = nil, nil, "", nil
	c.mu.Lock()
	c.first = client
	if f, ok := c.startAloneLocked(); ok {
		c.mu.Unlock()
		err := errPanicked
		defer func() {
			b.inUse = b.inUse || err == errPanicked //nolint:errorlint // compared unwrapped
			c.finish(f, err)
		}()
		err = f.send(ctx, []*waiter{p})
		return p, false
	}
	if p.done == nil {
		p.done = make(chan struct{}, 1)
	}
	p.ctx = ctx
	c.waiting = append(c.waiting, p)
	if now := time.Now(); c.roomLocked() && (c.farLocked() || len(c.waiting) >= minGroup || c.allSlowLocked(-1, now)) {
		c.sendLocked(now)
	}
	c.failWaitersLocked()
	c.mu.Unlock()
	select {
	case <-p.done:
		return p, false
	case <-ctx.Done():
	}
	return c.stopWaiting(ctx, p)
}

// errPanicked frees the connection of a client that panicked; the panic goes on to the caller.
var errPanicked = errors.New("redis: the client panicked")

// startAloneLocked starts the round trip of a batch that leaves at once by itself, on its caller's
// own goroutine. It returns false if the batch must wait as a waiter, which can stop at its
// deadline.
//
// While the client makes a connection, all who want to use it wait, whatever their contexts say.
// Near a server nobody does: a connection that carries one group at a time is not probed meanwhile.
// Far from it, and in a Cluster, whose partitions share connections, somebody may.
func (c *committer) startAloneLocked() (roundTrip, bool) {
	if c.sharesConnections || c.inFlight > 0 || c.farLocked() {
		return roundTrip{}, false
	}
	return c.pickLocked(time.Now())
}

// farLocked reports whether the server could decide more groups in one round trip than there are
// connections.
func (c *committer) farLocked() bool { return c.distance.Groups() > len(c.connections) }

// roomLocked reports whether another group may leave.
func (c *committer) roomLocked() bool {
	return c.inFlight < max(len(c.connections), c.distance.Groups())
}

// sendLocked sends the next group on its own goroutine, if some connection is healthy.
func (c *committer) sendLocked(now time.Time) {
	if f, ok := c.pickLocked(now); ok {
		go c.loop(f, c.groupLocked())
	}
}

// pickLocked starts a group on a healthy connection: near the server on the first that is free, far
// from it on the one with the fewest groups in flight. It starts probes of those that are not
// healthy.
func (c *committer) pickLocked(now time.Time) (roundTrip, bool) {
	far := c.farLocked()
	best, client := -1, c.first
	for i := range c.connections {
		l := &c.connections[i]
		connected := c.first
		if i > 0 {
			// While the server is away, a lone caller needs no second connection.
			if connected = l.link.Ready(c.inFlight > 0); connected == nil {
				continue
			}
		}
		if !l.healthy {
			if i == 0 || c.inFlight > 0 || c.connections[0].probeHangs(now) {
				c.probeLocked(i, connected, now)
			}
			continue
		}
		if l.inFlight > 0 && !far || best >= 0 && !l.betterThan(&c.connections[best]) {
			continue
		}
		best, client = i, connected
		if l.inFlight == 0 && !l.suspect {
			break
		}
	}
	if best < 0 {
		return roundTrip{}, false
	}
	return c.startOn(best, client, now, far), true
}

// betterThan reports whether a group should use l rather than other.
func (l *connection) betterThan(other *connection) bool {
	if l.suspect != other.suspect {
		return other.suspect
	}
	return l.inFlight < other.inFlight
}

// startOn counts a group that leaves on a connection.
func (c *committer) startOn(conn int, client rueidis.Client, now time.Time, far bool) roundTrip {
	l := &c.connections[conn]
	l.since = now
	l.inFlight++
	c.inFlight++
	f := roundTrip{connection: conn, client: client, left: now, renew: now.Sub(l.renewed) >= renewInterval, far: far}
	if f.renew {
		l.renewed = now
	}
	return f
}

// allSlowLocked reports whether all groups on connections other than conn have been in flight for
// longer than slowAfter.
func (c *committer) allSlowLocked(conn int, now time.Time) bool {
	for i := range c.connections {
		if l := &c.connections[i]; i != conn && l.inFlight > 0 && now.Sub(l.since) < slowAfter {
			return false
		}
	}
	return true
}

// stopWaiting removes a waiter whose context is done. It reports whether the waiter's group has
// already left.
func (c *committer) stopWaiting(ctx context.Context, p *waiter) (*waiter, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.left {
		select {
		case <-p.done: // it came just now
			return p, false
		default:
		}
		return &waiter{err: connect.Explain("decide", ctx.Err())}, true
	}
	i := slices.Index(c.waiting, p)
	c.waiting = slices.Delete(c.waiting, i, i+1)
	if !c.anyHealthyLocked() {
		return &waiter{err: connect.Explain("connect", ctx.Err())}, false
	}
	return &waiter{err: fmt.Errorf("redis: not sent, as earlier calls have no answer yet: %w", ctx.Err())}, false
}

// finish ends the round trip of a batch that left by itself, and sends the next group if there is
// one.
func (c *committer) finish(f roundTrip, err error) {
	if next, group := c.next(f, err); len(group) > 0 {
		go c.loop(next, group)
	}
}

// loop sends a group, and then the next ones as long as callers wait.
func (c *committer) loop(f roundTrip, group []*waiter) {
	for len(group) > 0 {
		until := transaction.LatestDeadline(len(group), func(i int) time.Time { return group[i].until })
		ctx, cancel := context.WithDeadline(context.Background(), until)
		err := f.send(ctx, group)
		cancel()
		back := group
		if len(back) == 1 {
			f, group = c.next(f, err) // before done, so that a lone caller's next call finds no group in flight
			back[0].done <- struct{}{}
			continue
		}
		for _, p := range back {
			p.done <- struct{}{}
		}
		// At high load those who have just got their answers call again at once. Let them run
		// first, so that they leave together.
		runtime.Gosched()
		f, group = c.next(f, err)
	}
}

// next is nextLocked with c.mu locked.
func (c *committer) next(f roundTrip, err error) (roundTrip, []*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextLocked(f, err)
}

// nextLocked ends a round trip, and returns the one of the group that leaves now. While somebody
// waits, some group or probe is always in flight.
func (c *committer) nextLocked(f roundTrip, err error) (roundTrip, []*waiter) {
	now := time.Now()
	c.connections[f.connection].inFlight--
	c.inFlight--
	c.resultLocked(f, err, now)
	n := len(c.waiting)
	if n == 0 || n < minGroup && c.inFlight > 0 && !c.farLocked() && !c.allSlowLocked(f.connection, now) {
		return roundTrip{}, nil
	}
	next, ok := c.pickLocked(now)
	if !ok {
		c.failWaitersLocked()
		return roundTrip{}, nil
	}
	return next, c.groupLocked()
}

// groupLocked removes from the waiters those who leave next: all that the same script decides as
// the first, as many as fit into a group.
func (c *committer) groupLocked() []*waiter {
	first, parts, bytes := c.waiting[0], 0, 0
	var group []*waiter
	rest := c.waiting[:0]
	for _, p := range c.waiting {
		with := p.kind == first.kind && (p.kind == byDecide || p.batch.quickWith(first.batch))
		if with {
			parts += len(p.batch.parts)
			bytes += p.batch.size
		}
		if !with || len(group) > 0 && (parts > maxTogether || bytes > maxBytes) {
			rest = append(rest, p)
			continue
		}
		// Read the deadline only now: a guard starts its timeout when the call leaves.
		p.until, _ = p.ctx.Deadline()
		p.left, p.ctx = true, nil
		group = append(group, p)
	}
	clear(c.waiting[len(rest):])
	c.waiting = rest
	return group
}

// send sends a group as one script call and gives each waiter its answer, or the error.
func (f roundTrip) send(ctx context.Context, group []*waiter) error {
	ctx = connect.NoDialContext{Context: ctx}
	if f.far {
		ctx = connect.NoDeadlineContext{Context: ctx}
	}
	client := f.client
	var reply []message
	var err error
	switch kind := group[0].kind; {
	case kind == byPing:
		err = execPing(ctx, client, group)
	case kind == byLease:
		err = execLease(ctx, client, group)
	case kind == byQuick && isFew(group):
		b := group[0].batch
		script, keys, words := b.few(f.renew)
		err = b.readFew(script.Exec(ctx, client, keys, words))
	case kind == byQuick:
		err = execQuick(ctx, client, group, f.renew)
	default:
		reply, err = execDecide(ctx, client, group).ToArray()
	}
	waiterErr := err
	if waiterErr != nil && waiterErr != errReply { //nolint:errorlint // compared unwrapped
		waiterErr = connect.Explain("decide", waiterErr)
	}
	distribute(group, reply, waiterErr)
	return err
}

// execDecide runs decide.lua for a group of batches.
func execDecide(ctx context.Context, client rueidis.Client, group []*waiter) rueidis.RedisResult {
	first := group[0].batch
	if len(group) == 1 && first.epoch == "" {
		return connect.DecideScript(first.kinds).Exec(ctx, client, first.keys, first.args)
	}
	var kinds script.Kinds
	var keys, args []string
	epoch, process := "", ""
	for _, p := range group {
		kinds |= p.batch.kinds
		epoch, process = max(epoch, p.batch.epoch), max(process, p.batch.process)
		keys, args = append(keys, p.batch.keys...), append(args, p.batch.args...)
	}
	if epoch != "" {
		keys = append(keys, epoch, process)
	}
	return connect.DecideScript(kinds).Exec(ctx, client, keys, args)
}

// execPing reads the epoch of the partition. A server that has none, or does not let this user read
// it, answers all the same.
func execPing(ctx context.Context, client rueidis.Client, group []*waiter) error {
	text, err := client.Do(ctx, client.B().Get().Key(group[0].batch.epoch).Build()).ToString()
	refused, ok := rueidis.IsRedisErr(err)
	if rueidis.IsRedisNil(err) || ok && (strings.HasPrefix(refused.Error(), "WRONGTYPE") || strings.HasPrefix(refused.Error(), "NOPERM")) {
		text, err = "", nil
	}
	for _, p := range group {
		p.epoch = text
	}
	return err
}

// distribute gives each waiter its part of decide.lua's answer.
func distribute(group []*waiter, reply []message, err error) {
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
