package resp

import (
	"bytes"
	"hash/maphash"
	"math"
	"strconv"

	"stint/limiter"
	"stint/rule"
)

const (
	// mostBatch is how many commands of a pipeline are decided in one call to the store. More would
	// save little, and no longer fit into the fastest memory of a processor.
	mostBatch = 64

	// maxBatchKey is the most bytes of a key in a batch, and maxDigits how many digits that number has. Keys
	// are copied, so long ones would take much memory.
	maxBatchKey = 999
	maxDigits   = 3

	// maxShape is the most bytes of a command without its holes for which it is compared with the next
	// one.
	maxShape = 256
)

// maxHoles is in how many arguments a command may differ from the next one that is compared with it.
const maxHoles = 4

// batch are commands of a pipeline that follow each other: CL.THROTTLE, or STINT.CHECK and STINT.PEEK whose descriptor has one
// plain limit. They are decided in one call to the store, at one time, each by itself and in order. A connection has one only
// while it reads them.
type batch struct {
	limiter.Batch
	checks bool // they are STINT.CHECK and STINT.PEEK

	known   [mostBatch]*numbered // numbers of each CL.THROTTLE
	hashes  [mostBatch]uint64    // of its key, for numbers
	entries []rule.Entry         // of all descriptors

	last shape
	same *numbered // numbers of the last CL.THROTTLE
	cost uint32    // of the last command

	// Of the last STINT.CHECK.
	domain string
	pairs  int // of its descriptor, which is at the end of entries
}

// shape is a command but for some of its arguments, the holes. Clients mostly send the same command again for another key, which is
// not parsed once more.
type shape struct {
	text  []byte
	ends  [maxHoles + 1]int // of the pieces of text before each hole, and behind the last one
	holes int               // 0: there is no command
}

// set makes the shape that of a command. Its holes are the arguments first, first+2 and so on.
func (s *shape) set(args [][]byte, first, holes int) {
	s.text, s.holes = appendLine(s.text[:0], '*', len(args)), 0
	for i, a := range args {
		if s.holes < holes && i == first+2*s.holes {
			s.ends[s.holes] = len(s.text)
			s.holes++
			continue
		}
		s.text = appendArg(s.text, a)
	}
	s.ends[s.holes] = len(s.text)
	if len(s.text) > maxShape {
		s.holes = 0
	}
}

// add adds a CL.THROTTLE.
func (b *batch) add(key []byte, known *numbered, cost uint32) {
	b.known[b.Len()] = known
	b.Add(key, known.limit, cost)
}

func appendArg(dst, arg []byte) []byte {
	return append(append(appendLine(dst, '$', len(arg)), arg...), "\r\n"...)
}

func appendLine(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}

// open returns the batch for one more command of a kind; nil if none is to be made, as nothing follows the command. It is
// called before the command is parsed: one that is answered at once is parsed then, and not twice.
func (c *conn) open(checks bool) *batch {
	if c.batch != nil && c.batch.checks != checks {
		c.settle()
	}
	if c.batch == nil && c.server.batches && c.in.more() {
		c.batch = c.server.spare.Get().(*batch)
		c.batch.checks = checks
	}
	return c.batch
}

// later adds a CL.THROTTLE to the batch. It reports whether that was possible: errors, and a command that
// nothing follows, are answered at once.
func (c *conn) later(args [][]byte) bool {
	if len(args) < 2 || len(args[1]) > maxBatchKey {
		return false
	}
	b := c.open(false)
	if b == nil {
		return false
	}
	ask, fault := c.server.parse(args)
	if fault != "" || ask.known == nil || ask.quantity > math.MaxUint32 {
		return false
	}
	b.same, b.cost = ask.known, uint32(ask.quantity)
	b.add(args[1], b.same, b.cost)
	c.added(args, 1, 1)
	return true
}

// laterCheck is later for STINT.CHECK, and for STINT.PEEK, which only looks.
func (c *conn) laterCheck(args [][]byte, look bool) bool {
	if len(args) < 5 {
		return false
	}
	b := c.open(true)
	if b == nil {
		return false
	}
	a, fault := c.begin(args)
	if fault == "" {
		fault = a.descriptor()
	}
	if fault != "" || len(a.args) > 0 || len(c.entries) > maxHoles {
		return false
	}
	if b.cost = c.req.Descriptors[0].Cost; look {
		b.cost = 0
	}
	b.domain, b.pairs = c.req.Domain, len(c.entries)
	b.entries = append(b.entries, c.entries...)
	if !c.join() {
		return false
	}
	c.added(args, 4, b.pairs)
	return true
}

// join adds the descriptor at the end of the batch's entries. It reports whether that was possible.
func (c *conn) join() bool {
	b := c.batch
	from := len(b.entries) - b.pairs
	if c.server.limiter.Join(&b.Batch, b.domain, b.entries[from:len(b.entries):len(b.entries)], b.cost) {
		return true
	}
	b.last.holes = 0
	return false
}

// added settles the batch if it is full, and else remembers the command that was added as the last one.
func (c *conn) added(args [][]byte, first, holes int) {
	switch b := c.batch; {
	case b.Len() == mostBatch:
		c.settle()
	case c.in.line:
		b.last.holes = 0 // the numbers of b are no longer those of the command before
	default:
		b.last.set(args, first, holes)
	}
}

// again adds the next command to the batch if it is the last one for another key. It reports whether it did.
func (c *conn) again() bool {
	b := c.batch
	if b == nil || b.last.holes == 0 || c.hasRole && c.list.changed() {
		return false
	}
	var holes [maxHoles][]byte
	to, ok := c.in.like(&b.last, &holes)
	if !ok {
		return false
	}
	if !b.checks {
		b.add(holes[0], b.same, b.cost)
	} else {
		from := len(b.entries) - b.pairs
		for i := range b.pairs {
			b.entries = append(b.entries, rule.Entry{Key: b.entries[from+i].Key, Value: text(holes[i])})
		}
		if !c.join() {
			return false
		}
	}
	c.in.skip(to)
	if b.Len() == mostBatch {
		c.settle()
	}
	return true
}

// like returns the arguments of the next command that are in the holes of a shape, and where it ends, if its other bytes are those of
// the shape and all of it has arrived.
func (r *reader) like(s *shape, holes *[maxHoles][]byte) (to int, ok bool) {
	if r.first != 0 {
		return 0, false
	}
	from := 0
	to = r.at
	for i := 0; ; i++ {
		piece := s.text[from:s.ends[i]]
		if !bytes.HasPrefix(r.buf[to:], piece) {
			return 0, false
		}
		if to += len(piece); i == s.holes {
			return to, true
		}
		arg, n := short(r.buf[to:])
		if n == 0 {
			return 0, false
		}
		holes[i] = arg
		to += n
		from = s.ends[i]
	}
}

// short returns the argument with which b begins, if that is not empty and has at most maxDigits digits of length, and its bytes; 0 if
// there is none.
func short(b []byte) (arg []byte, bytes int) {
	from, n := 1, 0
	for from < len(b) && from <= maxDigits && '0' <= b[from] && b[from] <= '9' {
		n = 10*n + int(b[from]-'0')
		from++
	}
	to := from + 2 + n
	if n == 0 || len(b) < to+2 || b[0] != '$' || b[1] == '0' || b[from] != '\r' || b[from+1] != '\n' || b[to] != '\r' || b[to+1] != '\n' {
		return nil, 0
	}
	return b[from+2 : to : to], to + 2
}

// skip goes on behind a command that ends at to.
func (r *reader) skip(to int) {
	r.at, r.pos = to, to
	r.ended++
}

// settle decides the batch and answers its commands.
func (c *conn) settle() {
	b := c.batch
	if b == nil {
		return
	}
	if b.Len() > 0 {
		c.decideBatch(b)
	}
	b.Clear()
	clear(b.entries) // parts of what the connection has read
	b.entries, b.domain, b.last.holes = b.entries[:0], "", 0
	c.batch = nil
	c.server.spare.Put(b)
}

// decideBatch decides the commands of a batch, and answers them.
func (c *conn) decideBatch(b *batch) {
	err := c.server.limiter.DecideBatch(c.server.ctx, &b.Batch)
	switch {
	case err != nil:
		for range b.Len() {
			c.out.fail(noDecision(err))
		}
	case b.checks:
		for i := range b.Len() {
			c.out.object(decisionFields)
			c.decision(b.Rule(i).Name, b.Decision(i), false, b.Reason(i))
		}
	default:
		c.answerThrottles(b)
	}
}

// answerThrottles answers the CL.THROTTLE of a batch, which was decided.
func (c *conn) answerThrottles(b *batch) {
	numbers := &c.server.numbers
	for i := range b.Len() {
		b.hashes[i] = maphash.String(numbers.seed, b.Key(i))
		numbers.set(b.hashes[i])[0].Load() // all at the same time: one after another each would wait for the memory
	}
	for i := range b.Len() {
		numbers.saw(b.hashes[i], b.known[i])
		c.throttled(b.Decision(i))
	}
}
