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

	"stint/store/redis/connect"
	"stint/store/redis/script"
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
	// way.
	slow = 5 * time.Millisecond

	// often is how often a group sets the TTL of all that it writes, on each connection: so
	// a key that somebody took the TTL from gets one, and most writes cost less.
	often = 5 * time.Millisecond

	// patience is how long a group may wait for its answer if no caller says how long.
	patience = 10 * time.Second
)

// committer sends batches to one server, or to one partition of a Cluster, in groups. A
// batch that finds nothing on its way leaves at once. What happens to those that come meanwhile
// depends on the distance to the server, which the committer measures:
//
//   - Near: they wait, and leave together in one script call as soon as they are enough and a
//     connection is free, or when what was on its way is back. A server decides takes that
//     come together in half the time.
//   - Far: they leave at once too, as long as fewer groups are on their way than the server
//     could decide in one round trip. A call that waited for the one before it would take two
//     round trips, and a deadline of one and a half would fail a healthy server.
//
// A connection is made, and after a loss made again, behind the backs of callers: they wait
// for it, as for a group, and fail at once if it cannot be made.
//
// A caller that waits no longer leaves the others alone: before the group has left it takes
// its batch out, and nothing was charged; afterwards it goes without the answer.
type committer struct {
	mu          sync.Mutex
	connections []connection // the first is used before the second
	inFlight    int          // how many groups are on their way
	waiting     []*waiter
	distance    distance
	first       rueidis.Client // of the first connection; nil before the first call
	where       string         // what the names of the keys begin with
	shares      bool           // others use the same connections
}

// connection is one way to the server. Near a server it carries one group at a time: where a client never has
// two commands on their way, and callers have deadlines, it needs no goroutines of its own.
type connection struct {
	link     *connect.Link
	inFlight int       // groups on their way
	since    time.Time // when the last of them left
	renewed  time.Time // when a group last set the TTL of all that it wrote

	sound   bool      // a probe was answered on it; others are not used
	doubted bool      // its last answer did not come in time; used where there is no better one
	probes  int       // probes under way
	probed  time.Time // when the last probe began
	proved  time.Time // when the last probe began that was answered
	after   time.Time // no probe before
	err     error     // why it is not sound
}

// roundTrip is a group that is about to leave, or on its way.
type roundTrip struct {
	connection int
	client     rueidis.Client
	left       time.Time
	renew      bool // it sets the TTL of all that it writes
	far        bool // others may leave on the same connection meanwhile
}

// newCommitter returns a committer with a connection for each link, for keys whose names begin with
// where.
func newCommitter(links []connect.Link, where string) *committer {
	c := &committer{connections: make([]connection, len(links)), where: where}
	for i := range links {
		c.connections[i].link = &links[i]
	}
	return c
}

// waiter is a batch in a group.
type waiter struct {
	batch *batch
	kind  passage
	ctx   context.Context // of its caller, until it leaves
	until time.Time       // when its caller waits no longer, once it has left; zero: never
	left  bool            // it is on its way, under mu
	done  chan struct{}   // has room for the one word that it is back

	reply []message // of decide.lua
	epoch string    // as it stands in the server, of byPing
	err   error
}

// passage is how a batch is decided. Only those of one kind travel together.
type passage int

const (
	byDecide passage = iota // by decide.lua
	byQuick                 // by quick.lua, few.lua or one.lua
	byPing                  // not at all: is the server there, and in which epoch?
)

// exchange has the server decide a batch, and returns its part of the answer. The client is
// that of the first connection. gone says that somebody may still read the batch.
func (c *committer) exchange(ctx context.Context, client rueidis.Client, b *batch, kind passage) (p *waiter, gone bool) {
	p = &b.slot
	if b.gone { // that one is still on its way
		p = new(waiter)
	}
	p.batch, p.kind, p.ctx, p.left = b, kind, nil, false
	p.until = time.Time{}
	p.reply, p.epoch, p.err = nil, "", nil
	c.mu.Lock()
	c.first = client
	if f, ok := c.aloneLocked(); ok {
		c.mu.Unlock()
		err := errPanicked
		defer func() {
			b.gone = b.gone || err == errPanicked //nolint:errorlint // as it is
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
	if now := time.Now(); c.roomLocked() && (c.farLocked() || len(c.waiting) >= enough || c.heldUpLocked(-1, now)) {
		c.sendLocked(now)
	}
	c.giveUpLocked()
	c.mu.Unlock()
	select {
	case <-p.done:
		return p, false
	case <-ctx.Done():
	}
	return c.leave(ctx, p)
}

// errPanicked stands for a panic that goes on to the caller: its connection is free again.
var errPanicked = errors.New("redis: the client panicked")

// aloneLocked returns the round trip of a batch that leaves at once by itself, on its caller's own
// goroutine; false where it becomes a waiter, who can go when his time is over.
//
// While a connection is made, the client has everybody wait who wants to use it, whatever their
// contexts say. Near a server nobody does: a connection that carries one group at a time is not probed
// meanwhile. Far from it, and in a Cluster, whose partitions share connections, somebody may.
func (c *committer) aloneLocked() (roundTrip, bool) {
	if c.shares || c.inFlight > 0 || c.farLocked() {
		return roundTrip{}, false
	}
	return c.pickLocked(time.Now())
}

// farLocked says whether the server is so far away that it could decide more groups in a
// round trip than there are connections.
func (c *committer) farLocked() bool { return c.distance.groups() > len(c.connections) }

// roomLocked says whether another group may leave.
func (c *committer) roomLocked() bool {
	return c.inFlight < max(len(c.connections), c.distance.groups())
}

// sendLocked sends a group on another connection, if one is sound.
func (c *committer) sendLocked(now time.Time) {
	if f, ok := c.pickLocked(now); ok {
		go c.loop(f, c.groupLocked())
	}
}

// pickLocked has a group leave on a connection that is sound: near the server on the first that
// is free, far from it on the one with the fewest groups. It has those probed that are not.
func (c *committer) pickLocked(now time.Time) (roundTrip, bool) {
	far := c.farLocked()
	best, client := -1, c.first
	for i := range c.connections {
		l := &c.connections[i]
		connected := c.first
		if i > 0 {
			// Who is alone needs no second connection while the server is away.
			if connected = l.link.Ready(c.inFlight > 0); connected == nil {
				continue
			}
		}
		if !l.sound {
			if i == 0 || c.inFlight > 0 || c.connections[0].hangs(now) {
				c.probeLocked(i, connected, now)
			}
			continue
		}
		if l.inFlight > 0 && !far || best >= 0 && !l.betterThan(&c.connections[best]) {
			continue
		}
		best, client = i, connected
		if l.inFlight == 0 && !l.doubted {
			break
		}
	}
	if best < 0 {
		return roundTrip{}, false
	}
	return c.startOn(best, client, now, far), true
}

// betterThan says whether a group leaves rather on this connection than on another.
func (l *connection) betterThan(other *connection) bool {
	if l.doubted != other.doubted {
		return other.doubted
	}
	return l.inFlight < other.inFlight
}

// startOn notes that a group leaves on a connection.
func (c *committer) startOn(conn int, client rueidis.Client, now time.Time, far bool) roundTrip {
	l := &c.connections[conn]
	l.since = now
	l.inFlight++
	c.inFlight++
	f := roundTrip{connection: conn, client: client, left: now, renew: now.Sub(l.renewed) >= often, far: far}
	if f.renew {
		l.renewed = now
	}
	return f
}

// heldUpLocked says whether all groups on other connections than this have been away for long.
func (c *committer) heldUpLocked(conn int, now time.Time) bool {
	for i := range c.connections {
		if l := &c.connections[i]; i != conn && l.inFlight > 0 && now.Sub(l.since) < slow {
			return false
		}
	}
	return true
}

// leave ends the wait of a waiter whose caller waits no longer.
func (c *committer) leave(ctx context.Context, p *waiter) (*waiter, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.left {
		select {
		case <-p.done: // just now
			return p, false
		default:
		}
		return &waiter{err: connect.Explain("decide", ctx.Err())}, true
	}
	i := slices.Index(c.waiting, p)
	c.waiting = slices.Delete(c.waiting, i, i+1)
	if !c.soundLocked() {
		return &waiter{err: connect.Explain("connect", ctx.Err())}, false
	}
	return &waiter{err: fmt.Errorf("redis: not asked, calls before it have no answer: %w", ctx.Err())}, false
}

// finish is called when a batch that travelled alone is back: if others wait, and may leave,
// they do.
func (c *committer) finish(f roundTrip, err error) {
	if next, group := c.next(f, err); len(group) > 0 {
		go c.loop(next, group)
	}
}

// loop sends a group, and more while callers wait for it.
func (c *committer) loop(f roundTrip, group []*waiter) {
	for len(group) > 0 {
		ctx, cancel := context.WithDeadline(context.Background(), deadline(group))
		err := f.send(ctx, group)
		cancel()
		back := group
		if len(back) == 1 {
			f, group = c.next(f, err) // a lone caller does not find his own group under way
			back[0].done <- struct{}{}
			continue
		}
		for _, p := range back {
			p.done <- struct{}{}
		}
		// Those who have just got their answers ask again at once where the load is
		// high. Let them run first, and they travel together.
		runtime.Gosched()
		f, group = c.next(f, err)
	}
}

// next is nextLocked with the lock.
func (c *committer) next(f roundTrip, err error) (roundTrip, []*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextLocked(f, err)
}

// nextLocked notes that a group is back, and returns the round trip of the group that leaves now.
// Some group stays on its way while somebody waits, or a probe.
func (c *committer) nextLocked(f roundTrip, err error) (roundTrip, []*waiter) {
	now := time.Now()
	c.connections[f.connection].inFlight--
	c.inFlight--
	c.noteLocked(f, err, now)
	n := len(c.waiting)
	if n == 0 || n < enough && c.inFlight > 0 && !c.farLocked() && !c.heldUpLocked(f.connection, now) {
		return roundTrip{}, nil
	}
	next, ok := c.pickLocked(now)
	if !ok {
		c.giveUpLocked()
		return roundTrip{}, nil
	}
	return next, c.groupLocked()
}

// groupLocked takes those who leave next out of the waiting: all that are decided by the
// script of the first, as many as may travel together.
func (c *committer) groupLocked() []*waiter {
	first, parts, bytes := c.waiting[0], 0, 0
	var group []*waiter
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
		// Callers are asked for their deadlines only now: those of a guard begin when the
		// call leaves.
		p.until, _ = p.ctx.Deadline()
		p.left, p.ctx = true, nil
		group = append(group, p)
	}
	clear(c.waiting[len(rest):])
	c.waiting = rest
	return group
}

// deadline returns when the last of a group waits no longer.
func deadline(group []*waiter) time.Time {
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

// send sends a group as one script call and hands out the answers, or the error.
func (f roundTrip) send(ctx context.Context, group []*waiter) error {
	ctx = carried{ctx}
	if f.far {
		ctx = shared{ctx}
	}
	client := f.client
	var reply []message
	var err error
	switch kind := group[0].kind; {
	case kind == byPing:
		err = execPing(ctx, client, group)
	case kind == byQuick && isFew(group):
		b := group[0].batch
		script, keys, words := b.few(f.renew)
		err = b.readFew(script.Exec(ctx, client, keys, words))
	case kind == byQuick:
		err = execQuick(ctx, client, group, f.renew)
	default:
		reply, err = execDecide(ctx, client, group).ToArray()
	}
	said := err
	if said != nil && said != errReply { //nolint:errorlint // as it is
		said = connect.Explain("decide", said)
	}
	hand(group, reply, said)
	return err
}

// execDecide has batches decided by decide.lua.
func execDecide(ctx context.Context, client rueidis.Client, group []*waiter) rueidis.RedisResult {
	first := group[0].batch
	if len(group) == 1 && first.epoch == "" {
		return scripts[first.kinds].Exec(ctx, client, first.keys, first.args)
	}
	var kinds script.Kinds
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

// execPing reads the epoch of the partition. A server that has none, or keeps it from this user, is
// there.
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

// hand gives each of a group its part of the answer of decide.lua.
func hand(group []*waiter, reply []message, err error) {
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
