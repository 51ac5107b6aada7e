package resp

import (
	"bytes"
	"hash/maphash"
	"math"
	"strconv"

	"stint/limiter"
)

const (
	// mostBatch is how many CL.THROTTLE of a pipeline are decided in one call to the store. More would
	// save little, and no longer fit into the fastest memory of a processor.
	mostBatch = 64

	// maxBatchKey is the most bytes of a key in a batch, and maxDigits how many digits that number has. Keys
	// are copied, so long ones would take much memory.
	maxBatchKey = 999
	maxDigits   = 3

	// maxShape is the most bytes of a command around its key for which it is compared with the next
	// one.
	maxShape = 128
)

// batch are CL.THROTTLE of a pipeline that follow each other. They are decided in one call to the store, at one
// time, each by itself and in order. A connection has one only while it reads them.
type batch struct {
	limiter.Batch
	known  [mostBatch]*numbered // numbers of each command
	hashes [mostBatch]uint64    // of its key, for numbers

	// The last command: its bytes before and after the argument of the key, its numbers and cost. Clients
	// mostly send the same again for another key, which is not parsed once more. No head: there is none.
	head, tail []byte
	same       *numbered
	cost       uint32
}

// add adds a command.
func (b *batch) add(key []byte, known *numbered, cost uint32) {
	b.known[b.Len()] = known
	b.Add(key, known.limit, cost)
}

// remember makes a command the last one.
func (b *batch) remember(args [][]byte, known *numbered, cost uint32) {
	b.head = appendArg(appendLine(b.head[:0], '*', len(args)), args[0])
	b.tail, b.same, b.cost = b.tail[:0], known, cost
	for _, a := range args[2:] {
		b.tail = appendArg(b.tail, a)
	}
	if len(b.head)+len(b.tail) > maxShape {
		b.head = b.head[:0]
	}
}

func appendArg(dst, arg []byte) []byte {
	return append(append(appendLine(dst, '$', len(arg)), arg...), "\r\n"...)
}

func appendLine(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}

// later adds a CL.THROTTLE to the batch. It reports whether that was possible: errors, and a command that
// nothing follows, are answered at once.
func (c *conn) later(args [][]byte) bool {
	if !c.server.batches || c.batch == nil && !c.in.more() || len(args) < 2 || len(args[1]) > maxBatchKey {
		return false
	}
	ask, fault := c.server.parse(args)
	if fault != "" || ask.known == nil || ask.quantity > math.MaxUint32 {
		return false
	}
	if c.batch == nil {
		c.batch = c.server.spare.Get().(*batch)
	}
	c.batch.add(args[1], ask.known, uint32(ask.quantity))
	if !c.in.line {
		c.batch.remember(args, ask.known, uint32(ask.quantity))
	}
	if c.batch.Len() == mostBatch {
		c.settle()
	}
	return true
}

// again adds the next command to the batch if it is the last one for another key. It reports whether it is.
func (c *conn) again() bool {
	b := c.batch
	if b == nil || len(b.head) == 0 || c.hasRole && c.list.changed() {
		return false
	}
	key, ok := c.in.like(b.head, b.tail)
	if !ok {
		return false
	}
	b.add(key, b.same, b.cost)
	if b.Len() == mostBatch {
		c.settle()
	}
	return true
}

// like returns the second argument of the next command if its other bytes are head and tail, and all of it
// has arrived.
func (r *reader) like(head, tail []byte) (arg []byte, ok bool) {
	rest := r.buf[r.at:]
	if r.first != 0 || !bytes.HasPrefix(rest, head) {
		return nil, false
	}
	from, n := len(head)+1, 0
	for from < len(rest) && from <= len(head)+maxDigits && '0' <= rest[from] && rest[from] <= '9' {
		n = 10*n + int(rest[from]-'0')
		from++
	}
	to := from + 2 + n
	if n == 0 || len(rest) < to+2+len(tail) || rest[len(head)] != '$' || rest[len(head)+1] == '0' ||
		rest[from] != '\r' || rest[from+1] != '\n' || rest[to] != '\r' || rest[to+1] != '\n' || !bytes.HasPrefix(rest[to+2:], tail) {
		return nil, false
	}
	r.at += to + 2 + len(tail)
	r.pos = r.at
	r.ended++
	return rest[from+2 : to : to], true
}

// settle decides the batch and answers its commands.
func (c *conn) settle() {
	b := c.batch
	if b == nil {
		return
	}
	if err := c.server.limiter.DecideBatch(c.server.ctx, &b.Batch); err != nil {
		for range b.Len() {
			c.out.fail(noDecision(err))
		}
	} else {
		c.answerBatch(b)
	}
	b.Clear()
	c.batch = nil
	c.server.spare.Put(b)
}

// answerBatch answers the commands of a batch, which was decided.
func (c *conn) answerBatch(b *batch) {
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
