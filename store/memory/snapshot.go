package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"stint"
	"stint/internal/system"
	"stint/internal/transaction"
)

// A snapshot is all states of a store as bytes: a head, then blocks.
//
//	head    "stintmem", the version in 4 bytes (little-endian, as all numbers of fixed size)
//	block   see system.BlockWriter
//
// The first block is the seed in 32 bytes and the fingerprint of a known text in 8, by which a reader
// checks that it computes fingerprints the same way. The other blocks have records, each after a byte
// for its kind:
//
//	limit   the numbers of a limit, see transaction.AppendSpec. Limits count from 0.
//	word    a limit's number (uvarint), fingerprint (8 bytes), state as StoreLimit.Pack writes it (uvarint)
//	state   a limit's number (uvarint), fingerprint (8 bytes), length (uvarint), state as State.AppendBinary writes it
//	usage   fingerprint (8 bytes), expiry (uvarint), length (uvarint), history as transaction.Usage.AppendBinary writes it
//	book    fingerprint (8 bytes) of the usage before it, length (uvarint), book as transaction.AppendBook writes it
//	event   length (uvarint), event as transaction.Event.AppendBinary writes it
//	journal the number of a file of the journal (uvarint), see SetJournalFrom
//	end     the number of states, and the store's lastDrop (uvarints); the last record
//
// Only limits with a state are written, before the first such state. The version is 4 if the store ever had a
// book, or has a journal, 3 if it ever had a history, 2 if it ever had a penalty, whose numbers version 1 does not have, else 1: so a release that knows no
// penalties still reads what it can decide, and calls everything else newer.
const (
	snapshotMagic   = "stintmem"
	snapshotVersion = 4
	meterVersion    = 3
	penaltyVersion  = 2
	plainVersion    = 1
	headSize        = len(snapshotMagic) + 4

	recordLimit = 1
	recordWord  = 2
	recordState = 3
	recordEnd   = 4
	recordUsage = 5
	recordEvent = 6
	recordBook  = 7 // 8 is in durable.go

	recordJournal = 9

	// blockSize is the size at which a block ends; a longer state makes a longer block.
	blockSize = 64 << 10

	// unknownZone stands for the number of a limit whose time zone cannot be written.
	unknownZone = math.MaxUint64
)

// Errors of Load, wrapped with details.
var (
	// ErrDamaged means that WriteSnapshot did not write these bytes.
	ErrDamaged = errors.New("damaged snapshot")

	// ErrNewer means that a later version of Stint wrote the snapshot.
	ErrNewer = errors.New("snapshot of a newer version")
)

// WriteSnapshot writes all live states to w, with the numbers under which they were written and the
// seed of the fingerprints. Keep a snapshot secret: with the seed somebody can find out whether a
// guessed key is in it, and make keys that collide. Time zones are written by name: states of
// calendar windows in a zone that [time.LoadLocation] does not find are left out.
//
// It may be called at any time. Takes on a table do not wait for it. A take that needs the lock of
// a shard, because its key is new and the table is full or because its state is in the map, waits
// while the shard is copied in memory, a small part of a millisecond. The states are written after
// that, without the lock.
//
// Everything that was decided before the call is in the snapshot. For decisions during the call
// each key is copied before or after, so a call of several takes may be in the snapshot with some
// of its keys and not with others. A restart from such a snapshot loses the last takes of some
// keys, as any crash loses those since the last snapshot; nobody is ever charged twice. If a call
// is changing a slot, the snapshot has the slot's old state: to wait would not help, since other
// keys of the call may have been copied already. A store without calls meanwhile is written
// exactly.
func (s *Store) WriteSnapshot(w io.Writer) error {
	if err := s.checkMade(); err != nil {
		return err
	}
	e := &encoder{now: s.now(0), limits: make(map[*stint.Limit]uint64), specs: make(map[stint.Spec]uint64)}
	e.head(w, s)
	var c shardCopy
	for i := range s.shards {
		c.copyShard(&s.shards[i])
		e.lastDrop = max(e.lastDrop, c.lastDrop)
		for _, one := range c.words {
			e.word(one, s.limits.of(one.Word))
		}
		for i := range c.cells {
			e.state(&c.cells[i])
		}
		for i := range c.meters {
			e.usage(&c.meters[i])
		}
		if err := e.blocks.Err(); err != nil {
			return err
		}
		runtime.Gosched() // lets waiting decisions run first
	}
	if e.metered { // after the histories, so that no event is missing that one of them has
		for _, one := range s.outbox.First(math.MaxInt) {
			e.event(&one)
		}
	}
	return e.end()
}

// shardCopy has the states of a shard at one moment.
type shardCopy struct {
	words    []entry
	cells    []cellCopy
	meters   []meterCopy
	lastDrop stint.Instant
}

// cellCopy is a copy of a cell.
type cellCopy struct {
	fp    uint64
	limit *stint.Limit
	state stint.State
}

// copyShard copies a shard under its lock, so that its table is not replaced and no state moves
// into the map meanwhile. A slot that a call holds still has its old state.
func (c *shardCopy) copyShard(sh *shard) {
	c.reserve(sh)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table.Load()
	c.lastDrop = max(t.lastDrop, sh.lastDrop)
	for i := range t.slots {
		sl := &t.slots[i]
		if fp := sl.mark.Load(); fp != empty {
			if word := sl.word.Load(); word != moved && word&^busy != untouched {
				c.words = append(c.words, entry{Key: fp, Word: word &^ busy})
			}
		}
	}
	c.metersLocked(sh)
	for fp, one := range sh.cellMap {
		n := len(c.cells)
		c.cells = slices.Grow(c.cells, 1)[:n+1]
		c.cells[n].fp, c.cells[n].limit = fp, one.Limit
		one.State.CopyTo(&c.cells[n].state)
	}
}

// reserve allocates memory before copyShard takes the lock: under the lock a garbage collection
// would make others wait too.
func (c *shardCopy) reserve(sh *shard) {
	c.words = slices.Grow(c.words[:0], len(sh.table.Load().slots))
	cells := int(sh.cells.Load())
	c.cells = slices.Grow(c.cells[:0], cells)
	for i := range c.cells[:cells] {
		if st := &c.cells[:cells][i].state; st.Log == nil {
			st.Log = new(stint.Log)
		}
	}
}

// encoder writes a snapshot.
type encoder struct {
	blocks *system.BlockWriter
	now    stint.Instant
	block  []byte

	limits   map[*stint.Limit]uint64 // number of each limit in the snapshot
	specs    map[stint.Spec]uint64   // number of each spec, as programs may make a new limit for each call
	states   uint64
	lastDrop stint.Instant
	long     []byte // buffer for one state

	penalties bool // the version allows penalties
	metered   bool // the version allows histories
	booked    bool // the version allows books
}

// flush ends a block.
func (e *encoder) flush() {
	e.blocks.Write(e.block)
	e.block = e.block[:0]
}

// head writes the head and the first block.
func (e *encoder) head(w io.Writer, s *Store) {
	version := uint32(plainVersion)
	from := s.journalFrom.Load()
	e.booked = from > 0 || s.booked.Load()
	e.metered = e.booked || s.metered.Load()
	e.penalties = e.metered || s.penalties.Load()
	switch {
	case e.booked:
		version = snapshotVersion
	case e.metered:
		version = meterVersion
	case e.penalties:
		version = penaltyVersion
	}
	e.blocks = system.NewBlockWriter(w, binary.LittleEndian.AppendUint32([]byte(snapshotMagic), version))
	e.block = s.seed.Append(e.block)
	e.flush()
	if from > 0 {
		e.block = binary.AppendUvarint(append(e.block, recordJournal), from)
	}
}

// end writes the last record.
func (e *encoder) end() error {
	e.block = append(e.block, recordEnd)
	e.block = binary.AppendUvarint(e.block, e.states)
	e.block = binary.AppendUvarint(e.block, uint64(e.lastDrop))
	e.flush()
	return e.blocks.Err()
}

// word writes a state of one word.
func (e *encoder) word(one entry, limit *stint.Limit) {
	packed := one.Word & stateMask
	st := limit.ForStores().Unpack(packed)
	if e.begin(recordWord, one.Key, limit, &st) {
		e.block = binary.AppendUvarint(e.block, packed)
		e.done()
	}
}

// state writes a state of the map.
func (e *encoder) state(c *cellCopy) {
	if !e.begin(recordState, c.fp, c.limit, &c.state) {
		return
	}
	e.long, _ = c.state.AppendBinary(e.long[:0]) // the error is always nil
	e.text(e.long)
	e.done()
}

// begin writes the first fields of a state's record. It returns false for a state that is not
// written, because it has expired or its zone cannot be written, or because it is the first penalty
// of the store and was decided after the call.
func (e *encoder) begin(kind byte, fp uint64, limit *stint.Limit, st *stint.State) bool {
	if !e.penalties && limit.Algorithm() == stint.Penalty {
		return false
	}
	if limit.Untouched(st, e.now) {
		e.lastDrop = max(e.lastDrop, e.now)
		return false
	}
	number, ok := e.limits[limit]
	if !ok {
		number = e.number(limit)
	}
	if number == unknownZone {
		return false
	}
	e.block = append(e.block, kind)
	e.block = binary.AppendUvarint(e.block, number)
	e.block = binary.LittleEndian.AppendUint64(e.block, fp)
	return true
}

// text writes a text after its length.
func (e *encoder) text(b []byte) {
	e.block = append(binary.AppendUvarint(e.block, uint64(len(b))), b...)
}

// done counts a state, and ends its record.
func (e *encoder) done() {
	e.states++
	e.endRecord()
}

// endRecord ends the block if it is long enough.
func (e *encoder) endRecord() {
	if len(e.block) >= blockSize {
		e.flush()
	}
}

// number returns the number of a limit that is not in e.limits, and writes its spec if that is new.
// It returns unknownZone if the limit cannot be written.
func (e *encoder) number(limit *stint.Limit) uint64 {
	spec := limit.Spec()
	number, ok := e.specs[spec]
	if !ok && spec.Zone != nil {
		if _, err := time.LoadLocation(spec.Zone.String()); err != nil {
			number, ok = unknownZone, true
		}
	}
	if !ok {
		number = uint64(len(e.specs))
		e.specs[spec] = number
		e.block = transaction.AppendSpec(append(e.block, recordLimit), &spec)
	}
	e.limits[limit] = number
	return number
}

// damaged returns an ErrDamaged with details.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}
