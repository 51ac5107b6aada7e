package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"stint"
)

// A snapshot is all states of a store as bytes: a head, then blocks.
//
//	head    "stintmem", the version in 4 bytes (little-endian, as all numbers of fixed size)
//	block   length of the content in 8 bytes, content, SHA-256 of the snapshot from its
//	        first byte to the end of this content
//
// A block can so be trusted before it is read, and nothing can be changed, left out,
// repeated or put elsewhere. The first block is the seed in 32 bytes and the
// fingerprint of a known text in 8, by which a reader sees that it computes them the
// same way. The others hold records, each after a byte that says what it is:
//
//	limit   the numbers of a limit, see appendSpec. Limits count from 0.
//	word    a limit's number (uvarint), fingerprint (8 bytes), state as StoreLimit.Pack writes it (uvarint)
//	state   a limit's number (uvarint), fingerprint (8 bytes), length (uvarint), state as State.AppendBinary writes it
//	end     how many states there are, and the store's born (uvarints); the last record
//
// Only limits under which there is a state are written, before the first such state.
const (
	snapshotMagic   = "stintmem"
	snapshotVersion = 1
	headSize        = len(snapshotMagic) + 4
	seedSize        = 4 * 8

	recordLimit = 1
	recordWord  = 2
	recordState = 3
	recordEnd   = 4

	// blockSize is where a block ends; a state that is longer makes a longer block.
	blockSize = 64 << 10

	// nameless is the number of limits whose time zone cannot be written.
	nameless = math.MaxUint64

	// knownKey is the text whose fingerprint stands in each snapshot.
	knownKey = "the same key, the same fingerprint"
)

// Errors of Load, wrapped with what is wrong.
var (
	// ErrDamaged says that bytes are not what WriteSnapshot wrote.
	ErrDamaged = errors.New("damaged snapshot")

	// ErrNewer says that a later version of Stint wrote the snapshot.
	ErrNewer = errors.New("snapshot of a newer version")
)

// WriteSnapshot writes all states that have not expired to w, with the numbers they
// were written under and the seed of the fingerprints. With the seed somebody can
// find out whether a key they guess is in it, and make keys that collide: keep it
// from others' eyes. Time zones are written by name: states of calendar windows in a
// zone that [time.LoadLocation] does not know are left out.
//
// It may be called at any time. Takes on a table are not held up at all; who needs
// the lock of a shard, because a key is new and its table is full or because a state
// lives in the map, waits while the shard is copied in memory, a small part of a
// millisecond. The states are written when the lock is free again.
//
// Everything that was decided before the call is in the snapshot. Of what is decided
// meanwhile each key is seen before or after, so a call of several takes may be in
// the snapshot with some of its keys and not with others. To come back from such a
// snapshot is to lose the last takes of some keys, as any crash loses those since the
// last snapshot; nobody is ever charged twice. To wait for slots that a call holds
// would change nothing of this, since its other keys may have been passed already:
// what such a slot held before is taken. A store that nobody asks meanwhile is
// written exactly.
func (s *Store) WriteSnapshot(w io.Writer) error {
	if err := s.made(); err != nil {
		return err
	}
	e := &encoder{w: w, sum: sha256.New(), now: s.now(0), limits: make(map[*stint.Limit]uint64), specs: make(map[stint.Spec]uint64)}
	e.head(s)
	var c copied
	for i := range s.shards {
		c.take(&s.shards[i])
		e.born = max(e.born, c.born)
		for _, one := range c.words {
			e.word(one, s.limits.of(one.word))
		}
		for i := range c.cells {
			e.state(&c.cells[i])
		}
		if e.err != nil {
			return e.err
		}
		runtime.Gosched() // decisions that wait for a processor come first
	}
	return e.end()
}

// copied is what a shard holds at one moment.
type copied struct {
	words []entry
	cells []keptCell
	born  stint.Instant
}

// keptCell is a copy of a cell.
type keptCell struct {
	fp    uint64
	limit *stint.Limit
	state stint.State
}

// take copies a shard under its lock, so that its table is not replaced and no state
// moves into the map meanwhile. A slot that a call holds still shows its old state.
func (c *copied) take(sh *shard) {
	c.reserve(sh)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table.Load()
	c.born = max(t.born, sh.born)
	for i := range t.slots {
		sl := &t.slots[i]
		if fp := sl.mark.Load(); fp != empty {
			if word := sl.word.Load(); word != moved && word&^busy != untouched {
				c.words = append(c.words, entry{fp: fp, word: word &^ busy})
			}
		}
	}
	for fp, one := range sh.wide {
		n := len(c.cells)
		c.cells = slices.Grow(c.cells, 1)[:n+1]
		c.cells[n].fp, c.cells[n].limit = fp, one.Limit
		one.State.CopyTo(&c.cells[n].state)
	}
}

// reserve makes memory before the lock is taken: under it the garbage collector
// would make others wait too.
func (c *copied) reserve(sh *shard) {
	c.words = slices.Grow(c.words[:0], len(sh.table.Load().slots))
	cells := int(sh.cells.Load())
	c.cells = slices.Grow(c.cells[:0], cells)
	for i := range c.cells[:cells] {
		if st := &c.cells[:cells][i].state; st.Log == nil {
			st.Log = new(stint.Log)
		}
	}
}

// encoder writes a snapshot. It keeps the first error and does nothing after it.
type encoder struct {
	w     io.Writer
	sum   hash.Hash
	now   stint.Instant
	block []byte
	err   error

	limits map[*stint.Limit]uint64 // their numbers in the snapshot
	specs  map[stint.Spec]uint64   // the same by their content: limits may be made anew for each call
	states uint64
	born   stint.Instant
	long   []byte // memory for the state that is being written
}

// write writes bytes as they are, and sums them.
func (e *encoder) write(b []byte) {
	if e.err == nil {
		e.sum.Write(b)
		_, e.err = e.w.Write(b)
	}
}

// flush ends a block.
func (e *encoder) flush() {
	e.write(binary.LittleEndian.AppendUint64(nil, uint64(len(e.block))))
	e.write(e.block)
	if e.err == nil {
		_, e.err = e.w.Write(e.sum.Sum(nil))
	}
	e.block = e.block[:0]
}

// head writes what a snapshot begins with.
func (e *encoder) head(s *Store) {
	e.write(binary.LittleEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion))
	for _, part := range s.seed {
		e.block = binary.LittleEndian.AppendUint64(e.block, part)
	}
	e.block = binary.LittleEndian.AppendUint64(e.block, s.seed.Sum(0, knownKey))
	e.flush()
}

// end writes the last record.
func (e *encoder) end() error {
	e.block = append(e.block, recordEnd)
	e.block = binary.AppendUvarint(e.block, e.states)
	e.block = binary.AppendUvarint(e.block, uint64(e.born))
	e.flush()
	return e.err
}

// word writes a state of one word.
func (e *encoder) word(one entry, limit *stint.Limit) {
	packed := one.word & stateMask
	st := limit.ForStores().Unpack(packed)
	if e.begin(recordWord, one.fp, limit, &st) {
		e.block = binary.AppendUvarint(e.block, packed)
		e.done()
	}
}

// state writes a state of the map.
func (e *encoder) state(c *keptCell) {
	if !e.begin(recordState, c.fp, c.limit, &c.state) {
		return
	}
	e.long, _ = c.state.AppendBinary(e.long[:0]) // it never fails
	e.block = binary.AppendUvarint(e.block, uint64(len(e.long)))
	e.block = append(e.block, e.long...)
	e.done()
}

// begin writes what each record of a state begins with; false for one that has
// expired.
func (e *encoder) begin(kind byte, fp uint64, limit *stint.Limit, st *stint.State) bool {
	if limit.Untouched(st, e.now) {
		e.born = max(e.born, e.now)
		return false
	}
	number, ok := e.limits[limit]
	if !ok {
		number = e.number(limit)
	}
	if number == nameless {
		return false
	}
	e.block = append(e.block, kind)
	e.block = binary.AppendUvarint(e.block, number)
	e.block = binary.LittleEndian.AppendUint64(e.block, fp)
	return true
}

// done counts a state, and ends the block where it is long enough.
func (e *encoder) done() {
	e.states++
	if len(e.block) >= blockSize {
		e.flush()
	}
}

// number returns the number of a limit that is seen for the first time, and writes
// its numbers where no other limit has had the same; nameless for one that cannot be
// written.
func (e *encoder) number(limit *stint.Limit) uint64 {
	spec := limit.Spec()
	number, ok := e.specs[spec]
	if !ok && spec.Zone != nil {
		if _, err := time.LoadLocation(spec.Zone.String()); err != nil {
			number, ok = nameless, true
		}
	}
	if !ok {
		number = uint64(len(e.specs))
		e.specs[spec] = number
		e.block = appendSpec(append(e.block, recordLimit), &spec)
	}
	e.limits[limit] = number
	return number
}

// The flags of an encoded spec.
const (
	flagStep = 1 << iota
	flagFromFirst
	flagCountDenied
	flagOverdraw
	flagHold
	flagStartFull
	flagCarryDebt
	allFlags = 1<<iota - 1
)

// appendSpec appends the numbers of a limit: algorithm, flags, calendar period (a
// byte each), requests, burst, blocks, per, max_wait, min_interval (uvarints, times
// in nanoseconds), and the name of the time zone with its length, "" for none.
func appendSpec(b []byte, s *stint.Spec) []byte {
	flags := byte(0)
	for i, set := range []bool{s.Step, s.FromFirst, s.CountDenied, s.Overdraw, s.Reserve, s.StartUsedUp, s.CarryDebt} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, byte(s.Algorithm), flags, byte(s.Calendar))
	for _, n := range []uint64{
		uint64(s.Requests), uint64(s.Burst), uint64(s.Blocks),
		uint64(s.Per), uint64(s.MaxWait), uint64(s.MinInterval),
	} {
		b = binary.AppendUvarint(b, n)
	}
	zone := ""
	if s.Zone != nil {
		zone = s.Zone.String()
	}
	b = binary.AppendUvarint(b, uint64(len(zone)))
	return append(b, zone...)
}

// damaged returns an error that says what is wrong with a snapshot.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}
