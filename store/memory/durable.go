package memory

import (
	"encoding/binary"

	"stint"
	"stint/internal/system"
	"stint/internal/transaction"
)

// A record for Options.Journal has records of a snapshot, each with the whole state of a key or an event:
//
//	limit, state   of a key; its limit is number 0
//	gone           fingerprint (8 bytes): the key is untouched
//	usage, book    after one of these, if the key has a history
//	event
//
// So to read some of them twice, or on top of a later snapshot, does no harm: the last record of a key
// decides.
const recordGone = 8

// recordsChange reports whether an operation may have changed the state of a key.
func recordsChange(op stint.Op, limit *stint.Limit, cost uint64, d *stint.Decision) bool {
	return !op.Asks() || cost > 0 && (d.Allowed || limit.ForStores().Overdraws() || limit.Spec().CountDenied || limit.Algorithm() == stint.Penalty)
}

// recordLocked gives the journal the state of a key, and its history.
func (s *Store) recordLocked(sh *shard, fp uint64) {
	if s.journal == nil {
		return
	}
	e := encoder{metered: true, booked: true}
	if c, ok := sh.cellMap[fp]; ok {
		spec := c.Limit.Spec()
		e.block = transaction.AppendSpec([]byte{recordLimit}, &spec)
		e.block = binary.LittleEndian.AppendUint64(append(e.block, recordState, 0), fp)
		e.long, _ = c.State.AppendBinary(nil) // the error is always nil
		e.text(e.long)
	} else {
		e.block = binary.LittleEndian.AppendUint64([]byte{recordGone}, fp)
	}
	if m := sh.meters[fp]; m != nil {
		e.history(&meterCopy{fp, *m})
	}
	s.journal(e.block)
}

// recordEvent gives the journal an event of a key.
func (s *Store) recordEvent(t *stint.Take, o *transaction.Event) {
	if s.journal == nil || !transaction.Durable(t) {
		return
	}
	text, _ := o.AppendBinary(nil) // the error is always nil
	s.journal(append(binary.AppendUvarint([]byte{recordEvent}, uint64(len(text))), text...))
}

// JournalHead returns what the head of a journal must have for ReplayHead: the seed of the fingerprints.
// Keep it secret, see WriteSnapshot.
func (s *Store) JournalHead() []byte { return s.seed.Append(nil) }

// SetJournalFrom sets the number of the first file of the journal that has changes which the next snapshot may
// lack. Snapshots have the number, so that a start notices that the file is missing. 0 means that there is no
// journal.
func (s *Store) SetJournalFrom(number uint64) { s.journalFrom.Store(number) }

// JournalFrom returns the number that SetJournalFrom has set, or that the snapshot had which was loaded.
func (s *Store) JournalFrom() uint64 { return s.journalFrom.Load() }

// ReplayHead checks the head of a journal before its records are replayed. A store without keys takes
// over the seed; another one must have the same. No other goroutine may use the store yet.
func (s *Store) ReplayHead(head []byte) error {
	seed, err := system.ReadSeed(head)
	switch {
	case err != nil:
		return damaged("%v", err)
	case seed == s.seed:
		return nil
	case s.Stats().Keys > 0 || s.metered.Load():
		return damaged("the journal belongs to other counts")
	}
	s.seed = seed
	return nil
}

// Replay replaces the state of a key by that of a record for Options.Journal. Records are replayed in
// their order, after the snapshot was loaded. No other goroutine may use the store yet.
func (s *Store) Replay(record []byte) error {
	d := decoder{store: s, budget: s.budget, now: s.now(0), BlockReader: &system.BlockReader{Bytes: system.Bytes{Left: record}}, replaces: true}
	return d.records()
}

// gone reads the fingerprint of a key that is untouched.
func (d *decoder) gone() error {
	if len(d.Left) < 8 || !d.replaces {
		return damaged("a state of no key")
	}
	d.store.replaceState(d.Uint64(), nil, d.now)
	return nil
}

// replaceState sets the state of a key; nil: it is untouched.
func (s *Store) replaceState(fp uint64, r *transaction.Record, now stint.Instant) {
	sh := s.shard(fp)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_ = s.fromTableLocked(sh, fp) // replaced
	if c := sh.cellMap[fp]; c != nil {
		s.dropLocked(sh, fp, c)
	}
	if r != nil && !r.Limit.Untouched(&r.State, now) {
		s.storeLocked(sh, fp, &cell{Record: *r}, now)
	}
}
