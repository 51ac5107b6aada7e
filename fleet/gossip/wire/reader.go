package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"

	"stint"
	"stint/internal/text"
)

var errMessage = errors.New("damaged message")

// Reader reads one message. After an error it returns zero values only.
type Reader struct {
	// Err is the first error; nil so far.
	Err error

	b         []byte // what is not read yet
	limits    []*stint.Limit
	maxLimits int
}

// NewReader returns a reader of a message.
func NewReader(message []byte) *Reader {
	return &Reader{b: message, maxLimits: max(minLimitMemory, limitMemoryPerByte*len(message)) / int(unsafe.Sizeof(stint.Limit{}))}
}

// The memory in bytes that the limits of a message may take: in any message, and for each byte
// of a longer one. A limit and its first key take about 50 bytes of a message, and a
// [stint.Limit] 184 bytes of memory.
const (
	minLimitMemory     = 20 << 10
	limitMemoryPerByte = 5
)

// Fail marks the message as damaged.
func (r *Reader) Fail() {
	r.b, r.Err = nil, errMessage
}

// More reports whether something is left to read.
func (r *Reader) More() bool { return len(r.b) > 0 && r.Err == nil }

// Number reads what [Writer.Number] wrote.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

// Fixed64 reads what [Writer.Fixed64] wrote.
func (r *Reader) Fixed64() uint64 {
	b := r.Cut(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// Cut reads n bytes, which stay part of the message.
func (r *Reader) Cut(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.Fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// Bytes reads what [Writer.Bytes] wrote. The bytes stay part of the message.
func (r *Reader) Bytes() []byte { return r.Cut(r.Number()) }

// ago reads what [Writer.ago] wrote, as a time before now.
func (r *Reader) ago(now stint.Instant) stint.Instant {
	return now - stint.Instant(min(r.Number(), uint64(now)))
}

// Limit reads what [Writer.Limit] wrote.
func (r *Reader) Limit() *stint.Limit {
	n := r.Number()
	if n < uint64(len(r.limits)) {
		return r.limits[n]
	}
	if len(r.limits) == r.maxLimits {
		r.Fail()
		return nil
	}
	var f [9]uint64
	for i := range f {
		if f[i] = r.Number(); f[i] > uint64(stint.MaxFill) || i < 6 && f[i] > stint.MaxCost {
			r.Fail()
		}
	}
	zone := r.Bytes()
	if r.Err != nil || n > uint64(len(r.limits)) || f[0] > uint64(stint.Unlimited) || f[2]>>anchorShift > 31 || f[2]&(1<<anchorShift-1) > uint64(stint.Year) {
		r.Fail()
		return nil
	}
	has := func(i int) bool { return f[1]&(1<<i) != 0 }
	s := stint.Spec{
		Algorithm: stint.Algorithm(f[0]), Calendar: stint.Period(f[2] & (1<<anchorShift - 1)), Anchor: uint8(f[2] >> anchorShift), Requests: uint32(f[3]), Burst: uint32(f[4]),
		Blocks: int(f[5]), Per: time.Duration(f[6]), MaxWait: time.Duration(f[7]), MinInterval: time.Duration(f[8]),
		Step: has(0), FromFirst: has(1), CountDenied: has(2), Overdraw: has(3), Reserve: has(4), StartUsedUp: has(5), CarryDebt: has(6),
		RoundRate: true, // the sender accepted this limit
	}
	if len(zone) > 0 {
		var known bool
		if s.Zone, known = text.LoadZone(string(zone)); !known {
			r.Fail()
			return nil
		}
	}
	l, err := stint.NewLimit(s)
	if err != nil || !Countable(l) {
		r.Fail()
		return nil
	}
	if len(r.limits) == cap(r.limits) { // append alone would take more steps
		r.limits = slices.Grow(r.limits, max(8, len(r.limits)))
	}
	r.limits = append(r.limits, l)
	return l
}
