package resp

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unsafe"

	"stint"
	"stint/limiter"
	"stint/limiter/response"
)

// cellUsage is what redis-cell answers to a wrong number of arguments.
const cellUsage = "Cell error: Usage: CL.THROTTLE <key> <max_burst> <count per period> <period> [<quantity>]"

// throttle is CL.THROTTLE key max_burst count period [quantity] with the contract of redis-cell: a
// token bucket of max_burst + 1. Its answer is whether the request is limited, the limit, what
// remains, the seconds to wait (-1: none, or never), and the seconds until the bucket is full.
//
// redis-cell keeps a time, so that a key whose rate is raised is denied for what it used at the old
// rate. Here the used units are kept.
func (c *desk) throttle(args [][]byte) {
	ask, fault := c.server.parse(args)
	if fault != "" {
		c.out.fail(fault)
		return
	}
	if ask.known == nil {
		c.throttled(&stint.Decision{Limit: max(ask.burst+1, 0), RetryAfter: stint.Never})
		return
	}
	cost := uint32(ask.quantity)
	tooMany := ask.quantity > math.MaxUint32
	if tooMany {
		cost = 0
	}
	d, err := c.bucket(args[1], ask.known.limit, stint.Ask, cost)
	if err != nil {
		c.out.fail(noDecision(err))
		return
	}
	if tooMany {
		d.Allowed, d.RetryAfter = false, stint.Never
	}
	c.server.numbers.saw(maphash.Bytes(c.server.numbers.seed, args[1]), ask.known)
	c.throttled(d)
}

// throttling are the arguments of CL.THROTTLE.
type throttling struct {
	known           *numbered // nil: nothing ever passes
	burst, quantity int64
}

// parse parses the arguments of CL.THROTTLE. It returns an error for the client, "" if there is none.
func (s *Server) parse(args [][]byte) (t throttling, fault string) {
	if len(args) != 5 && len(args) != 6 {
		return t, cellUsage
	}
	var n [4]int64
	n[3] = 1
	for i, a := range args[2:] {
		var valid bool
		if n[i], valid = parseInt(a); !valid {
			return t, "Cell error: Couldn't parse as integer: " + cut(a)
		}
	}
	t.burst, t.quantity = n[0], n[3]
	if t.burst < 0 && t.burst > math.MinInt64 && n[1] > 0 && n[2] > 0 && t.quantity > 0 {
		return t, ""
	}
	known, err := s.numbers.find(bucket{t.burst, n[1], n[2]})
	switch {
	case err != nil:
		return t, "Cell error: " + err.Error()
	case t.quantity < 0:
		return t, "Cell error: the quantity is negative: give 0 to look, and DEL to give everything back"
	case len(args[1]) > limiter.MaxValue:
		return t, "Cell error: the key is too long"
	}
	t.known = known
	return t, ""
}

// throttled answers CL.THROTTLE.
func (c *desk) throttled(d *stint.Decision) {
	limited, retry := int64(1), cellSeconds(d.RetryAfter)
	if d.Allowed {
		limited, retry = 0, -1
	}
	c.out.array(5)
	for _, n := range [...]int64{limited, d.Limit, d.Remaining, retry, cellSeconds(d.ResetAfter)} {
		c.out.number(n)
	}
}

// cellSeconds rounds as redis-cell does: up, unless less than a millisecond is left over.
func cellSeconds(d time.Duration) int64 {
	if d == stint.Never {
		return -1
	}
	s := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		s++
	}
	return s
}

// bucket asks for the bucket of a key, and returns the decision, which is valid until the next one.
func (c *desk) bucket(key []byte, limit *stint.Limit, op stint.Op, cost uint32) (*stint.Decision, error) {
	c.req = limiter.Request{Descriptors: append(c.req.Descriptors[:0], limiter.Descriptor{Cost: cost}), Op: op}
	err := c.server.limiter.DecideInline(c.server.ctx, unsafe.String(unsafe.SliceData(key), len(key)), limit, &c.req, &c.verdict)
	return &c.verdict.Decision, err
}

// look returns the state of the bucket of a key, and its numbers if this node knows them.
func (c *conn) look(key []byte) (d *stint.Decision, known *numbered, err error) {
	limit := probe
	if known = c.server.numbers.of(key); known != nil {
		limit = known.limit
	}
	d, err = c.bucket(key, limit, stint.Ask, 0)
	return d, known, err
}

// probe is the limit with which keys are looked at whose numbers are not known. A state keeps its
// used units under other numbers.
var probe = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 1})

// del is DEL key...: the buckets of the keys are full again. It answers how many were not.
func (c *conn) del(args [][]byte) {
	deleted := int64(0)
	for _, key := range args[1:] {
		d, known, err := c.look(key)
		if err != nil {
			c.out.fail(noDecision(err))
			return
		}
		if d.Remaining == d.Limit {
			continue
		}
		limit := probe
		if known != nil {
			limit = known.limit
		}
		if _, err := c.bucket(key, limit, stint.Reset, 0); err != nil {
			c.out.fail(noDecision(err))
			return
		}
		deleted++
	}
	c.out.number(deleted)
}

// exists is EXISTS key...: how many of the buckets are not full. In redis-cell a full one has no key.
func (c *conn) exists(args [][]byte) {
	found := int64(0)
	for _, key := range args[1:] {
		d, _, err := c.look(key)
		if err != nil {
			c.out.fail(noDecision(err))
			return
		}
		if d.Remaining < d.Limit {
			found++
		}
	}
	c.out.number(found)
}

func (c *conn) ttl(args [][]byte) { c.untilFull(args[1], time.Second) }

func (c *conn) pttl(args [][]byte) { c.untilFull(args[1], time.Millisecond) }

// untilFull answers when the bucket of a key is full, rounded as TTL does: -2 if it is, -1 if this
// node does not know the numbers of the bucket, since another one has asked for it.
func (c *conn) untilFull(key []byte, unit time.Duration) {
	d, known, err := c.look(key)
	switch {
	case err != nil:
		c.out.fail(noDecision(err))
	case d.Remaining == d.Limit:
		c.out.number(-2)
	case known == nil:
		c.out.number(-1)
	case unit == time.Millisecond:
		c.out.number(int64((d.ResetAfter + unit - 1) / unit))
	default:
		c.out.number(int64((d.ResetAfter + unit/2) / unit))
	}
}

// maxPeriod is the longest period of a limit, in seconds.
const maxPeriod = int64(stint.MaxPer / time.Second)

// bucket are the numbers of CL.THROTTLE.
type bucket struct{ burst, count, period int64 }

// limit returns the token bucket with these numbers.
func (b bucket) limit() (*stint.Limit, error) {
	switch {
	case b.burst < 0 || b.burst >= math.MaxUint32:
		return nil, errors.New("max_burst is not a number from 0 to 4294967294")
	case b.count <= 0 || b.count > math.MaxUint32:
		return nil, errors.New("count per period is not a number from 1 to 4294967295")
	case b.period <= 0 || b.period > maxPeriod:
		return nil, fmt.Errorf("period is not a number of seconds from 1 to %d, 366 days", maxPeriod)
	case b.count/b.period >= int64(time.Second):
		return nil, errors.New("more than one unit in a nanosecond")
	}
	limit, err := stint.NewLimit(stint.Spec{
		Algorithm: stint.TokenBucket, Requests: uint32(b.count), Per: time.Duration(b.period) * time.Second, Burst: uint32(b.burst + 1), RoundRate: true,
	})
	if wrong, ok := errors.AsType[*stint.SpecError](err); ok {
		return nil, errors.New(wrong.Field + " " + wrong.Problem)
	}
	return limit, err
}

// numbered is a limit that was asked for.
type numbered struct {
	bucket
	limit *stint.Limit

	// id is its place, and above that bits of its hash, by which another bucket that has taken the place
	// is known.
	id uint32
}

const (
	bucketSlots = 1 << 13
	bucketTries = 8
	keySlots    = 1 << 17
	keyTries    = 8
)

// numbers caches the limits of CL.THROTTLE, and remembers which of them each key had last, so that
// TTL can be answered: 1 MB for 131,072 keys. Where all places of a new one are taken it replaces any of
// them. Nothing depends on it but TTL and speed. It is safe for concurrent use.
type numbers struct {
	seed    maphash.Seed
	buckets [bucketSlots]atomic.Pointer[numbered]
	keys    [keySlots]atomic.Uint64 // the upper half of the hash of a key, and the id of its limit
}

func (n *numbers) init() { n.seed = maphash.MakeSeed() }

// find returns the limit with these numbers.
func (n *numbers) find(b bucket) (*numbered, error) {
	hash := uint64(b.burst)*0x9e3779b97f4a7c15 ^ uint64(b.count)*0xbf58476d1ce4e5b9 ^ uint64(b.period)*0x94d049bb133111eb
	at := hash >> 40
	place := (at + rand.Uint64N(bucketTries)) % bucketSlots
	for i := range uint64(bucketTries) {
		one := n.buckets[(at+i)%bucketSlots].Load()
		if one == nil {
			place = (at + i) % bucketSlots
			break
		}
		if one.bucket == b {
			return one, nil
		}
	}
	limit, err := b.limit()
	if err != nil {
		return nil, err
	}
	made := &numbered{b, limit, uint32(hash>>10)&^(bucketSlots-1) | uint32(place)}
	n.buckets[place].Store(made)
	return made, nil
}

// keyHalf are the bits of a key's hash that are kept.
const keyHalf = math.MaxUint64 &^ math.MaxUint32

// saw notes the numbers of a key with the hash h.
func (n *numbers) saw(h uint64, known *numbered) {
	v := h&keyHalf | uint64(known.id)
	set := n.set(h)
	free := -1
	for i := range set {
		one := set[i].Load()
		switch {
		case one == v:
			return
		case one&keyHalf == h&keyHalf:
			set[i].Store(v)
			return
		case one == 0 && free < 0:
			free = i
		}
	}
	if free < 0 {
		free = rand.IntN(keyTries)
	}
	set[free].Store(v)
}

// set returns the places of a key: 64 bytes that are read at once.
func (n *numbers) set(h uint64) []atomic.Uint64 {
	at := h % (keySlots / keyTries) * keyTries
	return n.keys[at : at+keyTries]
}

// of returns the numbers that a key had last; nil if they are not known.
func (n *numbers) of(key []byte) *numbered {
	h := maphash.Bytes(n.seed, key)
	set := n.set(h)
	for i := range set {
		v := set[i].Load()
		if v == 0 || v&keyHalf != h&keyHalf {
			continue
		}
		if one := n.buckets[v%bucketSlots].Load(); one != nil && one.id == uint32(v) { //nolint:gosec // the lower half
			return one
		}
		return nil
	}
	return nil
}

// noDecision returns the error for a decision that failed.
func noDecision(err error) string {
	problem, hint := response.Undecided(err)
	return "ERR " + problem + ": " + hint
}
