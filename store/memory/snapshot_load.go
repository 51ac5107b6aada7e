package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"time"

	"stint"
	"stint/internal/system"
	"stint/migrate"
)

// Load returns a store with the states of a snapshot that WriteSnapshot wrote. The
// time since then counts: states hold points in time, so what has expired meanwhile
// is dropped and all else is as if the store had never stopped. Limits whose numbers
// have changed since carry over as they do in a running store. A smaller budget than
// before forgets keys as a full store does.
//
// Load reads r to its end. A snapshot that is not whole to the last byte, or has
// anything behind it, is an error that wraps ErrDamaged or ErrNewer, and there is no
// store; errors of r are returned as they are.
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

// decoder reads a snapshot into a store that nobody else knows yet.
type decoder struct {
	r      io.Reader
	sum    hash.Hash
	store  *Store
	budget int64 // of the whole store
	now    stint.Instant

	block  bytes.Buffer
	left   []byte // what has not been read of block
	limits []*stint.Limit
	states uint64
	born   stint.Instant // latest time at which an expired state was dropped
	ended  bool
}

// head reads what a snapshot begins with.
func (d *decoder) head() error {
	head := make([]byte, headSize)
	if err := d.full(head); err != nil {
		return err
	}
	version := binary.LittleEndian.Uint32(head[len(snapshotMagic):])
	switch {
	case string(head[:len(snapshotMagic)]) != snapshotMagic || version == 0:
		return damaged("it does not begin as one")
	case version > snapshotVersion:
		return ErrNewer
	}
	d.sum.Write(head)
	if err := d.next(); err != nil {
		return err
	}
	if len(d.left) != seedSize+8 {
		return damaged("%d bytes where the seed should be", len(d.left))
	}
	var seed system.Seed
	for i := range seed {
		if seed[i] = d.eight(); seed[i] == 0 {
			return damaged("the seed is empty")
		}
	}
	if d.eight() != seed.Sum(0, knownKey) {
		return damaged("its fingerprints are computed in another way")
	}
	d.store.seed = seed
	return nil
}

// next reads a block and checks its sum.
func (d *decoder) next() error {
	var length [8]byte
	if err := d.full(length[:]); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint64(length[:]))
	if size <= 0 {
		return damaged("a block of impossible length")
	}
	d.block.Reset()
	// The buffer grows with what comes, so a damaged length cannot exhaust memory.
	if _, err := io.CopyN(&d.block, d.r, size); err != nil {
		return early(err)
	}
	var sum [sha256.Size]byte
	if err := d.full(sum[:]); err != nil {
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

// full fills b.
func (d *decoder) full(b []byte) error {
	_, err := io.ReadFull(d.r, b)
	return early(err)
}

// early turns an end that comes too early into what it means.
func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it is cut off")
	}
	return err
}

// record reads the next record of the block.
func (d *decoder) record() error {
	switch kind := d.one(); kind {
	case recordLimit:
		return d.limit()
	case recordWord, recordState:
		return d.state(kind)
	case recordEnd:
		states, ok := d.uvarint()
		born, alsoOK := d.uvarint()
		if !ok || !alsoOK || states != d.states || born > uint64(stint.MaxInstant) || len(d.left) > 0 {
			return damaged("its end does not fit")
		}
		if dropped := stint.Instant(born); !dropped.Future(d.now) {
			d.born = max(d.born, dropped)
		}
		d.store.forgotten(d.born)
		d.store.budget = d.budget
		d.ended = true
		return nil
	default:
		return damaged("unknown record %d", kind)
	}
}

// limit reads the numbers of a limit.
func (d *decoder) limit() error {
	var s stint.Spec
	flags := byte(0)
	s.Algorithm, flags, s.Calendar = stint.Algorithm(d.one()), d.one(), stint.Period(d.one())
	s.Step, s.FromFirst = flags&flagStep != 0, flags&flagFromFirst != 0
	s.CountDenied, s.Overdraw = flags&flagCountDenied != 0, flags&flagOverdraw != 0
	s.Reserve, s.StartUsedUp = flags&flagHold != 0, flags&flagStartFull != 0
	s.CarryDebt = flags&flagCarryDebt != 0
	var numbers [6]uint64
	for i := range numbers {
		n, ok := d.uvarint()
		if !ok || i < 3 && n > stint.MaxCost || i >= 3 && n > uint64(stint.MaxFill) {
			return damaged("numbers of a limit are cut or too large")
		}
		numbers[i] = n
	}
	s.Requests, s.Burst, s.Blocks = uint32(numbers[0]), uint32(numbers[1]), int(numbers[2])
	s.Per, s.MaxWait, s.MinInterval = time.Duration(numbers[3]), time.Duration(numbers[4]), time.Duration(numbers[5])
	length, ok := d.uvarint()
	if !ok || length > uint64(len(d.left)) || flags > allFlags {
		return damaged("numbers of a limit are cut or unknown")
	}
	if length > 0 {
		zone, err := time.LoadLocation(string(d.cut(int(length))))
		if err != nil {
			return damaged("%v", err)
		}
		s.Zone = zone
	}
	s.RoundRate = true // it was accepted once
	limit, err := stint.NewLimit(s)
	if err != nil {
		return damaged("%v", err)
	}
	d.limits = append(d.limits, limit)
	return nil
}

// state reads a state and puts it into the store.
func (d *decoder) state(kind byte) error {
	number, ok := d.uvarint()
	if !ok || number >= uint64(len(d.limits)) || len(d.left) < 8 {
		return damaged("a state of no limit")
	}
	limit := d.limits[number]
	fp := d.eight()
	word, ok := d.uvarint() // or length
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
	d.states++
	// Shards come one after another, so each gets its part of the budget: the first ones
	// would otherwise use it up, and the last ones forget everybody.
	shards := uint64(len(d.store.shards))
	d.store.budget = int64(uint64(d.budget) / shards * (fp>>d.store.shift + 1))
	if limit.Untouched(&st, d.now) {
		d.store.counts.expired.Add(1)
		d.born = d.now
		return nil
	}
	if !d.store.restore(fp, limit, &st, d.now) {
		return damaged("a key stands in it twice")
	}
	return nil
}

// one takes a byte, 0 where there is none.
func (d *decoder) one() byte {
	if len(d.left) == 0 {
		return 0
	}
	return d.cut(1)[0]
}

// eight takes a number of eight bytes, which have to be there.
func (d *decoder) eight() uint64 { return binary.LittleEndian.Uint64(d.cut(8)) }

// cut takes n bytes, which have to be there.
func (d *decoder) cut(n int) []byte {
	b := d.left[:n]
	d.left = d.left[n:]
	return b
}

func (d *decoder) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(d.left)
	if n <= 0 {
		return 0, false
	}
	d.left = d.left[n:]
	return v, true
}

// restore puts back the state of a key; false if the map holds the key already.
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
	if _, there := sh.wide[fp]; there {
		return false
	}
	s.keepLocked(sh, fp, &cell{Record: migrate.Record{State: *st, Limit: limit}}, now)
	return true
}

// forgotten notes that states which expired by the time at were dropped, whosever
// they were. Nobody else may know the store yet.
func (s *Store) forgotten(at stint.Instant) {
	for i := range s.shards {
		s.shards[i].born = max(s.shards[i].born, at)
		t := s.tables[i].Load()
		t.born = max(t.born, at)
	}
}
