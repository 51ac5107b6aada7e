package memory

import (
	"encoding/binary"
	"errors"
	"io"

	"stint"
	"stint/internal/system"
	"stint/internal/transaction"
)

// Load returns a store with the states of a snapshot. The time since the snapshot counts: states
// contain points in time, so Load drops those that have expired meanwhile, and all others are as if
// the store had never stopped. Limits whose numbers have changed since carry over as in a running
// store. With a smaller budget than before Load evicts keys as a full store does.
//
// Load reads r to its end. If the snapshot is incomplete or has bytes after its end, Load returns
// no store and an error that wraps ErrDamaged or ErrNewer; it returns errors of r unchanged.
func Load(r io.Reader, options Options) (*Store, error) {
	s := New(options)
	d := &decoder{store: s, budget: s.budget}
	if err := d.head(r); err != nil {
		return nil, err
	}
	d.now = s.now(0)
	for !d.ended {
		if err := ofBlock(d.Next()); err != nil {
			return nil, err
		}
		if err := d.records(); err != nil {
			return nil, err
		}
	}
	if err := ofBlock(d.End()); err != nil {
		return nil, err
	}
	return s, nil
}

// decoder reads a snapshot into a store that no other goroutine uses yet.
type decoder struct {
	*system.BlockReader
	store  *Store
	budget int64 // budget of the finished store
	now    stint.Instant

	limits   []*stint.Limit
	states   uint64
	lastDrop stint.Instant // latest time at which an expired state was dropped
	ended    bool
	replaces bool // states replace those of the store
}

// head reads the head and the first block.
func (d *decoder) head(r io.Reader) error {
	blocks, head, err := system.NewBlockReader(r, headSize)
	if err != nil {
		return ofBlock(err)
	}
	version := binary.LittleEndian.Uint32(head[len(snapshotMagic):])
	switch {
	case string(head[:len(snapshotMagic)]) != snapshotMagic || version == 0:
		return damaged("it does not begin with the head of a snapshot")
	case version > snapshotVersion:
		return ErrNewer
	}
	d.BlockReader = blocks
	if err := d.Next(); err != nil {
		return ofBlock(err)
	}
	if d.store.seed, err = system.ReadSeed(d.Left); err != nil {
		return damaged("%v", err)
	}
	return nil
}

// ofBlock turns the error of a block that cannot be read into ErrDamaged.
func ofBlock(err error) error {
	if fault, ok := errors.AsType[system.BlockError](err); ok {
		return damaged("%s", string(fault))
	}
	return err
}

// records reads the records of the block.
func (d *decoder) records() error {
	for len(d.Left) > 0 {
		if err := d.record(); err != nil {
			return err
		}
	}
	return nil
}

// record reads the next record of the block.
func (d *decoder) record() error {
	switch kind := d.Byte(); kind {
	case recordLimit:
		return d.limit()
	case recordWord, recordState:
		return d.state(kind)
	case recordUsage:
		return d.usage()
	case recordBook:
		return d.book()
	case recordEvent:
		return d.event()
	case recordGone:
		return d.gone()
	case recordJournal:
		from, ok := d.Uvarint()
		if !ok || from == 0 {
			return damaged("a journal without a number")
		}
		d.store.journalFrom.Store(from)
		return nil
	case recordEnd:
		states, ok := d.Uvarint()
		lastDrop, alsoOK := d.Uvarint()
		if !ok || !alsoOK || states != d.states || lastDrop > uint64(stint.MaxInstant) || len(d.Left) > 0 {
			return damaged("its last record is wrong")
		}
		if dropped := stint.Instant(lastDrop); !dropped.Future(d.now) {
			d.lastDrop = max(d.lastDrop, dropped)
		}
		d.store.markDropped(d.lastDrop)
		d.store.budget = d.budget
		d.ended = true
		return nil
	default:
		return damaged("unknown record %d", kind)
	}
}

// limit reads the numbers of a limit.
func (d *decoder) limit() error {
	limit, rest, err := transaction.ReadSpec(d.Left)
	if err != nil {
		return damaged("%v", err)
	}
	d.limits, d.Left = append(d.limits, limit), rest
	return nil
}

// state reads a state and adds it to the store.
func (d *decoder) state(kind byte) error {
	number, ok := d.Uvarint()
	if !ok || number >= uint64(len(d.limits)) || len(d.Left) < 8 {
		return damaged("a state of no limit")
	}
	limit := d.limits[number]
	fp := d.Uint64()
	word, ok := d.Uvarint() // or the length of a state
	if !ok || fp == empty || fp == closed {
		return damaged("a state of no key")
	}
	var st stint.State
	if kind == recordWord {
		if !limit.ForStores().Packed() || word > stateMask {
			return damaged("a state that does not fit its limit")
		}
		st = limit.ForStores().Unpack(word)
	} else {
		if word > uint64(len(d.Left)) {
			return damaged("a state that is cut")
		}
		if err := st.UnmarshalBinary(d.Cut(int(word))); err != nil {
			return damaged("%v", err)
		}
	}
	if d.replaces {
		d.store.replaceState(fp, &transaction.Record{State: st, Limit: limit}, d.now)
		return nil
	}
	d.states++
	// Shards come one after another, so each gets its part of the budget. Otherwise the first ones
	// would use it up, and all keys of the last ones would be evicted.
	shards := uint64(len(d.store.shards))
	d.store.budget = int64(uint64(d.budget) / shards * (fp>>d.store.shift + 1))
	if limit.Untouched(&st, d.now) {
		d.store.counts.expired.Add(1)
		d.lastDrop = d.now
		return nil
	}
	if !d.store.restore(fp, limit, &st, d.now) {
		return damaged("it has a key twice")
	}
	return nil
}

// restore adds the state of a key. It returns false if the map has the key already.
func (s *Store) restore(fp uint64, limit *stint.Limit, st *stint.State, now stint.Instant) bool {
	sh := s.shard(fp)
	for limit.ForStores().Packed() {
		id, word := s.limits.id(limit), limit.ForStores().Pack(st)
		if id == 0 || word > stateMask {
			break
		}
		t := sh.table.Load()
		_, end := t.find(fp)
		if sl := t.claim(fp, end); sl != nil {
			sl.word.Store(id<<stateBits | word)
			return true
		}
		s.replace(sh, t, now)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, there := sh.cellMap[fp]; there {
		return false
	}
	s.storeLocked(sh, fp, &cell{Record: transaction.Record{State: *st, Limit: limit}}, now)
	return true
}

// markDropped sets the time at which expired states of unknown keys were dropped. No other
// goroutine may use the store yet.
func (s *Store) markDropped(at stint.Instant) {
	for i := range s.shards {
		s.shards[i].lastDrop = max(s.shards[i].lastDrop, at)
		t := s.tables[i].Load()
		t.lastDrop = max(t.lastDrop, at)
	}
}
