package gossip

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"

	"stint"
	"stint/internal/text"
)

// Every message begins with the version of the format, its kind and who sent it. Numbers
// are uvarints; times are relative to the sender's clock, so no two clocks need to agree.
//
//	told    its number, then counts: what the sender took since it told of it last
//	beat    the number of the last of these, so that a lost one is missed
//	want    a question: what was heard up to which number of whom
//	entries a part of the answer: keys with their states, and the counts in them
//	ask     a question about one key
//	answer  the sender's count of it
//
// Each kind has a version of its own, so that nodes of two releases understand each other in
// what did not change: want and entries say since 2 when what was.
func format(kind byte) byte {
	if kind == want || kind == entries {
		return 2
	}
	return 1
}

const (
	told = iota + 1
	beat
	want
	entries
	ask
	answer
)

// kindOf returns the kind of a message by its first two bytes, 0 where they are those of
// another release.
func kindOf(head []byte) byte {
	if len(head) < 2 || head[1] < told || head[1] > answer || head[0] != format(head[1]) {
		return 0
	}
	return head[1]
}

// maxPacket is how long a message is that goes as one packet, and maxBulk how long others.
const (
	maxPacket = 1200
	maxBulk   = 256 << 10
)

var errMessage = errors.New("damaged message")

// writer writes one message.
type writer struct {
	b      []byte
	limits map[*stint.Limit]uint64 // that stand in it already
}

func (w *writer) begin(kind byte, from uint64) {
	w.b = append(make([]byte, 0, maxPacket), format(kind), kind)
	w.eight(from)
	w.limits = nil
}

func (w *writer) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) eight(n uint64)  { w.b = binary.LittleEndian.AppendUint64(w.b, n) }

func (w *writer) bytes(b string) {
	w.number(uint64(len(b)))
	w.b = append(w.b, b...)
}

// limit writes the number of a limit in this message, and its words the first time.
func (w *writer) limit(l *stint.Limit) {
	if n, ok := w.limits[l]; ok {
		w.number(n)
		return
	}
	n := uint64(len(w.limits))
	if w.limits == nil {
		w.limits = make(map[*stint.Limit]uint64)
	}
	w.limits[l] = n
	w.number(n)
	s := l.Spec()
	flags := uint64(0)
	for i, set := range []bool{s.Step, s.FromFirst, s.CountDenied, s.Overdraw, s.Reserve, s.StartUsedUp, s.CarryDebt} {
		if set {
			flags |= 1 << i
		}
	}
	zone := ""
	if s.Zone != nil {
		zone = s.Zone.String()
	}
	for _, n := range []uint64{
		uint64(s.Algorithm), flags, uint64(s.Calendar), uint64(s.Requests), uint64(s.Burst), uint64(s.Blocks),
		uint64(s.Per), uint64(s.MaxWait), uint64(s.MinInterval),
	} {
		w.number(n)
	}
	w.bytes(zone)
}

// reader reads one message. After an error all it returns is zero.
type reader struct {
	b      []byte
	err    error
	limits []*stint.Limit
	most   int // of limits
}

// newReader returns a reader of a message.
func newReader(message []byte) *reader {
	return &reader{b: message, most: max(limitsAtLeast, limitsPerByte*len(message)) / int(unsafe.Sizeof(stint.Limit{}))}
}

// The memory that the limits of a message may take: in all, and for each byte of it. A
// limit and its first key take some fifty bytes of a message, and a limit here 200.
const (
	limitsAtLeast = 20 << 10
	limitsPerByte = 5
)

func (r *reader) fail() {
	r.b, r.err = nil, errMessage
}

func (r *reader) more() bool { return len(r.b) > 0 && r.err == nil }

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) eight() uint64 {
	b := r.cut(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) cut(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// bytes returns a part of the message, which is the reader's.
func (r *reader) bytes() []byte { return r.cut(r.number()) }

// limit returns the limit that stands next.
func (r *reader) limit() *stint.Limit {
	n := r.number()
	if n < uint64(len(r.limits)) {
		return r.limits[n]
	}
	if len(r.limits) == r.most {
		r.fail()
		return nil
	}
	var f [9]uint64
	for i := range f {
		if f[i] = r.number(); f[i] > uint64(stint.MaxFill) || i < 6 && f[i] > stint.MaxCost {
			r.fail()
		}
	}
	zone := r.bytes()
	if r.err != nil || n > uint64(len(r.limits)) || f[0] > uint64(stint.Unlimited) || f[2] > uint64(stint.Year) {
		r.fail()
		return nil
	}
	has := func(i int) bool { return f[1]&(1<<i) != 0 }
	s := stint.Spec{
		Algorithm: stint.Algorithm(f[0]), Calendar: stint.Period(f[2]), Requests: uint32(f[3]), Burst: uint32(f[4]),
		Blocks: int(f[5]), Per: time.Duration(f[6]), MaxWait: time.Duration(f[7]), MinInterval: time.Duration(f[8]),
		Step: has(0), FromFirst: has(1), CountDenied: has(2), Overdraw: has(3), Reserve: has(4), StartUsedUp: has(5), CarryDebt: has(6),
		RoundRate: true, // a node accepted it
	}
	if len(zone) > 0 {
		var known bool
		if s.Zone, known = text.LoadZone(string(zone)); !known {
			r.fail()
			return nil
		}
	}
	l, err := stint.NewLimit(s)
	if err != nil || !counts(l) {
		r.fail()
		return nil
	}
	if len(r.limits) == cap(r.limits) { // append alone would take more steps
		r.limits = slices.Grow(r.limits, max(8, len(r.limits)))
	}
	r.limits = append(r.limits, l)
	return l
}

// news is what a node tells of its count of a key: n of the units taken are new since it
// told of them last, and late of all units were taken in windows that are over.
type news struct {
	limit *stint.Limit
	key   stint.Key
	count
	n    uint64
	late uint64
}

// The flags of counts.
const (
	hasGiven = 1 << iota
	hasLate
	hasReset
)

func (w *writer) news(k *news) {
	w.limit(k.limit)
	w.bytes(string(k.key))
	base := k.taken - k.n
	flags := byte(0)
	if k.given > 0 {
		flags |= hasGiven
	}
	if k.late > base {
		flags |= hasLate
	}
	if k.reset {
		flags |= hasReset
	}
	w.b = append(w.b, flags)
	w.number(k.count.number - k.born)
	w.number(k.taken)
	w.number(k.n)
	if flags&hasGiven != 0 {
		w.number(k.given)
	}
	if flags&hasLate != 0 {
		w.number(k.late)
	}
}

// news reads one count of the message of a number. Its key is the reader's.
func (r *reader) news(number uint64) (k news) {
	k.limit = r.limit()
	k.key = stint.Key(r.bytes())
	flags := byte(0)
	if b := r.cut(1); b != nil {
		flags = b[0]
	}
	back := r.number()
	k.taken, k.n = r.number(), r.number()
	if flags&hasGiven != 0 {
		k.given = r.number()
	}
	if flags&hasLate != 0 {
		k.late = r.number()
	}
	if back >= number || k.n > k.taken || k.given > k.taken || k.late > k.taken || k.key == "" || flags >= hasReset<<1 {
		r.fail()
	}
	k.born, k.count.number, k.reset = number-back, number, flags&hasReset != 0
	return k
}

// whose is a count together with whose it is.
type whose struct {
	origin uint64
	at     stint.Instant // when it was last told, 0 for the sender's own
	count
}

// item is all that a node knows of a key.
type item struct {
	limit  *stint.Limit
	key    stint.Key
	state  stint.State
	from   stint.Instant // see entry
	busy   busy
	counts []whose
}

// item writes all of a key. Times are how long ago they were.
func (w *writer) item(it *item, now stint.Instant) {
	w.limit(it.limit)
	w.bytes(string(it.key))
	state, _ := it.state.AppendBinary(nil)
	w.bytes(string(state))
	w.ago(it.from, now)
	w.ago(it.busy.since, now)
	w.number(uint64(max(0, it.busy.taken)))
	w.number(uint64(len(it.counts)))
	for i := range it.counts {
		c := &it.counts[i]
		w.eight(c.origin)
		flags := byte(0)
		if c.reset {
			flags = hasReset
		}
		w.b = append(w.b, flags)
		w.ago(c.at, now)
		for _, n := range []uint64{c.born, c.number, c.taken, c.given} {
			w.number(n)
		}
	}
}

// ago writes how long ago something was; 0, which is never, is now.
func (w *writer) ago(at, now stint.Instant) {
	if at == 0 {
		at = now
	}
	w.number(uint64(max(0, now-at)))
}

// ago reads it.
func (r *reader) ago(now stint.Instant) stint.Instant {
	return now - stint.Instant(min(r.number(), uint64(now)))
}

// item reads all that somebody knows of a key, now.
func (r *reader) item(now stint.Instant) (it item) {
	it.limit = r.limit()
	it.key = stint.Key(r.bytes())
	if r.err == nil && it.state.UnmarshalBinary(r.bytes()) != nil || it.key == "" {
		r.fail()
	}
	it.from, it.busy.since = r.ago(now), r.ago(now)
	it.busy.taken = int64(min(r.number(), uint64(stint.MaxInstant)))
	n := r.number()
	if n > uint64(len(r.b))/14 {
		r.fail()
		return it
	}
	it.counts = make([]whose, 0, n)
	for range n {
		c := whose{origin: r.eight()}
		if b := r.cut(1); b != nil {
			c.reset = b[0]&hasReset != 0
		}
		c.at = r.ago(now)
		c.born, c.number, c.taken, c.given = r.number(), r.number(), r.number(), r.number()
		if c.born == 0 || c.given > c.taken {
			r.fail()
		}
		it.counts = append(it.counts, c)
	}
	return it
}

// known is up to which number somebody's messages were heard, and how long ago none was missing.
type known struct {
	origin, number uint64
	ago            time.Duration
}

func (w *writer) known(list []known) {
	w.number(uint64(len(list)))
	for _, k := range list {
		w.eight(k.origin)
		w.number(k.number)
		w.number(uint64(max(0, k.ago) / time.Millisecond))
	}
}

func (r *reader) known() (list []known) {
	n := r.number()
	if n > uint64(len(r.b))/10 {
		r.fail()
		return nil
	}
	list = make([]known, 0, n)
	for range n {
		k := known{origin: r.eight(), number: r.number()}
		k.ago = time.Duration(min(r.number(), 1<<40)) * time.Millisecond
		list = append(list, k)
	}
	return list
}
