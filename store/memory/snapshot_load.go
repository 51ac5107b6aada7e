package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
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
	d := &decoder{r: r, sum: sha256.New(), store: s, budget: s.budget}
	if err := d.head(); err != nil {
		return nil, err
	}
	d.now = s.now(0)
	for !d.ended {
		if err := d.next(); err != nil {
			return nil, err
		}
		for len(d.left) > 0 {
			if err := d.record(); err != nil {
				return nil, err
			}
		}
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return nil, damaged("more bytes after its end")
	case err != io.EOF:
		return nil, err
	}
	return s, nil
}

// decoder reads a snapshot into a store that no other goroutine uses yet.
type decoder struct {
	r      io.Reader
	sum    hash.Hash
	store  *Store
	budget int64 // budget of the finished store
	now    stint.Instant

	block    bytes.Buffer
	left     []byte // unread rest of block
	limits   []*stint.Limit
	states   uint64
	lastDrop stint.Instant // latest time at which an expired state was dropped
	ended    bool
	replaces bool // states replace those of the store
}

// head reads the head and the first block.
func (d *decoder) head() error {
	head := make([]byte, headSize)
	if err := d.readFull(head); err != nil {
		return err
	}
	version := binary.LittleEndian.Uint32(head[len(snapshotMagic):])
	switch {
	case string(head[:len(snapshotMagic)]) != snapshotMagic || version == 0:
		return damaged("it does not begin with the head of a snapshot")
	case version > snapshotVersion:
		return ErrNewer
	}
	d.sum.Write(head)
	if err := d.next(); err != nil {
		return err
	}
	seed, err := readSeed(d.left)
	d.store.seed = seed
	return err
}

// readSeed reads the seed of fingerprints, and checks that they are computed in the same way.
func readSeed(b []byte) (seed system.Seed, err error) {
	if len(b) != seedSize+8 {
		return seed, damaged("%d bytes where the seed should be", len(b))
	}
	for i := range seed {
		if seed[i] = binary.LittleEndian.Uint64(b[8*i:]); seed[i] == 0 {
			return seed, damaged("the seed is empty")
		}
	}
	if binary.LittleEndian.Uint64(b[seedSize:]) != seed.Sum(0, knownKey) {
		return seed, damaged("its fingerprints are computed in another way")
	}
	return seed, nil
}

// next reads a block and checks its checksum.
func (d *decoder) next() error {
	var length [8]byte
	if err := d.readFull(length[:]); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint64(length[:]))
	if size <= 0 {
		return damaged("a block of impossible length")
	}
	d.block.Reset()
	// The buffer grows with the data, so a damaged length cannot exhaust memory.
	if _, err := io.CopyN(&d.block, d.r, size); err != nil {
		return cutOff(err)
	}
	var sum [sha256.Size]byte
	if err := d.readFull(sum[:]); err != nil {
		return err
	}
	d.sum.Write(length[:])
	d.sum.Write(d.block.Bytes())
	if !bytes.Equal(d.sum.Sum(nil), sum[:]) {
		return damaged("its checksum is wrong")
	}
	d.left = d.block.Bytes()
	return nil
}

// readFull reads len(b) bytes into b.
func (d *decoder) readFull(b []byte) error {
	_, err := io.ReadFull(d.r, b)
	return cutOff(err)
}

// cutOff turns the error about an early end into ErrDamaged.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it is cut off")
	}
	return err
}

// record reads the next record of the block.
func (d *decoder) record() error {
	switch kind := d.readByte(); kind {
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
	case recordEnd:
		states, ok := d.uvarint()
		lastDrop, alsoOK := d.uvarint()
		if !ok || !alsoOK || states != d.states || lastDrop > uint64(stint.MaxInstant) || len(d.left) > 0 {
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
	limit, rest, err := transaction.ReadSpec(d.left)
	if err != nil {
		return damaged("%v", err)
	}
	d.limits, d.left = append(d.limits, limit), rest
	return nil
}

// state reads a state and adds it to the store.
func (d *decoder) state(kind byte) error {
	number, ok := d.uvarint()
	if !ok || number >= uint64(len(d.limits)) || len(d.left) < 8 {
		return damaged("a state of no limit")
	}
	limit := d.limits[number]
	fp := d.readUint64()
	word, ok := d.uvarint() // or the length of a state
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
		if word > uint64(len(d.left)) {
			return damaged("a state that is cut")
		}
		if err := st.UnmarshalBinary(d.cut(int(word))); err != nil {
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

// readByte returns the next byte, 0 if there is none.
func (d *decoder) readByte() byte {
	if len(d.left) == 0 {
		return 0
	}
	return d.cut(1)[0]
}

// readUint64 returns the next eight bytes as a number. The caller checks that they are there.
func (d *decoder) readUint64() uint64 { return binary.LittleEndian.Uint64(d.cut(8)) }

// cut returns the next n bytes. The caller checks that they are there.
func (d *decoder) cut(n int) []byte {
	b := d.left[:n]
	d.left = d.left[n:]
	return b
}

// text returns the next text, which follows its length; false if it is cut.
func (d *decoder) text() ([]byte, bool) {
	length, ok := d.uvarint()
	if !ok || length > uint64(len(d.left)) {
		return nil, false
	}
	return d.cut(int(length)), true
}

func (d *decoder) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(d.left)
	if n <= 0 {
		return 0, false
	}
	d.left = d.left[n:]
	return v, true
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
