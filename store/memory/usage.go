package memory

import (
	"context"
	"encoding/binary"
	"slices"
	"unsafe"

	"stint"
	"stint/internal/transaction"
)

// meter is the history of a key's use, with the names of the key. Time drops it, and the budget: if a
// new one does not fit, the one of its shard that would expire first.
type meter struct {
	transaction.Usage
	expiry stint.Instant
	base   string // of the IDs of its events; "" until there is one
	bytes  int64  // bytes that Store.bytes counts for it
}

// meterBytes is the size of a meter with its place in the map, without its texts and periods.
const meterBytes = int64(unsafe.Sizeof(meter{})) + 24

// bookLocked returns the book of a key, and nil for a take without grants.
func (sh *shard) bookLocked(fp uint64, t *stint.Take) *transaction.Book {
	var known *transaction.Book
	if m := sh.meters[fp]; m != nil {
		known = m.Book
	}
	return known.For(t)
}

// meterLocked adds what a take changed to the history of its key, and writes the events of thresholds
// that it reached. The lock is that of the key's shard, which guards its state too. A take with grants
// has changed the book.
func (s *Store) meterLocked(sh *shard, fp uint64, t *stint.Take, book *transaction.Book, c transaction.UseChange, now stint.Instant) {
	m := sh.meters[fp]
	if m != nil {
		m.History.GiveBack(c.GivenBack, now)
		m.expiry = max(m.expiry, m.Book.Expiry(t.Limit, now)) // a refund may have a later end of a grant
	}
	if c.Charged == 0 {
		return
	}
	if m == nil {
		m = new(meter)
		if sh.meters == nil {
			sh.meters = make(map[uint64]*meter)
		}
		sh.meters[fp] = m
		s.metered.Store(true)
	}
	if !m.Named(t) {
		m.Names, m.base = transaction.NamesOf(t).Clone(), ""
	}
	keep, notify := transaction.Metering(t)
	of := t.Handling.Meter.Of
	fired := m.Charge(c, keep, of, notify, s.outbox.Room())
	if book != nil {
		m.Book = book
		s.booked.Store(true)
	} else if m.Book != nil {
		m.Book.Forget(c.Start)
	}
	m.expiry = max(m.History.Expiry(t.Limit, keep), m.Book.Expiry(t.Limit, now))
	for _, percent := range fired {
		if m.base == "" {
			m.base = m.EventBase(s.name)
		}
		event := transaction.Event{
			ID: transaction.EventID(m.base, percent, c.Start, c.End), Names: m.Names,
			Threshold: percent, Used: uint64(c.Used), Of: uint64(of), Start: c.Start, End: c.End, At: now,
		}
		s.outbox.Add(event)
		s.recordEvent(t, &event)
	}
	s.countMeterLocked(sh, fp, m, now)
}

// countMeterLocked counts the bytes of a history, and makes room for it.
func (s *Store) countMeterLocked(sh *shard, fp uint64, m *meter, now stint.Instant) {
	grown := meterBytes + int64(m.Size()+m.Book.Size()) - m.bytes
	m.bytes += grown
	if s.bytes.Add(grown) <= s.budget || grown <= 0 {
		return
	}
	s.dropMetersLocked(sh, now, len(sh.meters))
	s.shrinkLocked(sh, fp, now)
	first := fp
	for other, o := range sh.meters {
		if first == fp || o.expiry < sh.meters[first].expiry {
			first = other
		}
	}
	if first != fp && s.bytes.Load() > s.budget {
		s.dropMeterLocked(sh, first)
		s.counts.over.Add(1)
	}
}

// Pending returns at most max events of the outbox, the oldest first.
func (s *Store) Pending(_ context.Context, max int) ([]transaction.Event, error) {
	return s.outbox.First(max), nil
}

// Done removes events from the outbox by their IDs.
func (s *Store) Done(_ context.Context, ids []string) error {
	s.outbox.Done(ids)
	return nil
}

// Usage returns the history of a take's key. Its names are those of the take if there is none.
func (s *Store) Usage(_ context.Context, t *stint.Take) (transaction.Usage, error) {
	if err := s.checkMade(); err != nil {
		return transaction.Usage{}, err
	}
	fp := s.fingerprint(t.Limit.Algorithm(), t.Key)
	sh := s.shard(fp)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if m := sh.meters[fp]; m != nil {
		return m.Clone(), nil
	}
	names := transaction.UsageOf(t)
	return names.Clone(), nil
}

// Usages calls yield for the history of each key until it returns false. It holds the lock of a shard
// only while it copies the shard's histories.
func (s *Store) Usages(_ context.Context, yield func(transaction.Usage) bool) error {
	for i := range s.shards {
		for _, u := range s.shards[i].usages() {
			if !yield(u) {
				return nil
			}
		}
	}
	return nil
}

// usages returns copies of the histories of a shard.
func (sh *shard) usages() (all []transaction.Usage) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, m := range sh.meters {
		u := m.Usage
		u.Book = nil // see transaction.Usage
		all = append(all, u.Clone())
	}
	return all
}

// dropMetersLocked drops histories whose periods have all ended long ago. It reads at most most.
func (s *Store) dropMetersLocked(sh *shard, now stint.Instant, most int) {
	for fp, m := range sh.meters {
		if m.expiry <= now {
			s.dropMeterLocked(sh, fp)
		}
		if most--; most == 0 {
			return
		}
	}
}

func (s *Store) dropMeterLocked(sh *shard, fp uint64) {
	s.bytes.Add(-sh.meters[fp].bytes)
	delete(sh.meters, fp)
}

// metersLocked copies the histories of a shard for a snapshot.
func (c *shardCopy) metersLocked(sh *shard) {
	c.meters = c.meters[:0]
	for fp, m := range sh.meters {
		one := meterCopy{fp, meter{Usage: m.Usage, expiry: m.expiry}}
		one.History, one.Book = slices.Clone(m.History), m.Book.Clone()
		c.meters = append(c.meters, one)
	}
}

// meterCopy is a copy of a history.
type meterCopy struct {
	fp uint64
	meter
}

// usage writes the record of a history.
func (e *encoder) usage(m *meterCopy) {
	if !e.metered || m.expiry <= e.now {
		return
	}
	e.history(m)
	e.endRecord()
}

// history writes the record of a history, and that of its book.
func (e *encoder) history(m *meterCopy) {
	e.block = binary.LittleEndian.AppendUint64(append(e.block, recordUsage), m.fp)
	e.block = binary.AppendUvarint(e.block, uint64(m.expiry))
	e.long, _ = m.AppendBinary(e.long[:0]) // the error is always nil
	e.text(e.long)
	if e.booked && m.Book != nil {
		e.block = binary.LittleEndian.AppendUint64(append(e.block, recordBook), m.fp)
		e.long = transaction.AppendBook(e.long[:0], m.Book)
		e.text(e.long)
	}
}

// event writes the record of an event.
func (e *encoder) event(o *transaction.Event) {
	e.block = append(e.block, recordEvent)
	e.long, _ = o.AppendBinary(e.long[:0]) // the error is always nil
	e.text(e.long)
	e.endRecord()
}

// usage reads a history and adds it to the store.
func (d *decoder) usage() error {
	if len(d.Left) < 8 {
		return damaged("a history of no key")
	}
	fp, m := d.Uint64(), new(meter)
	expiry, ok := d.Uvarint()
	text, also := d.Text()
	if !ok || !also || expiry > uint64(stint.MaxInstant) || m.UnmarshalBinary(text) != nil {
		return damaged("a history that is cut")
	}
	if m.expiry = stint.Instant(expiry); m.expiry <= d.now {
		return nil
	}
	sh := d.store.shard(fp)
	if sh.meters[fp] != nil {
		if !d.replaces {
			return damaged("it has a history twice")
		}
		d.store.dropMeterLocked(sh, fp)
	}
	if sh.meters == nil {
		sh.meters = make(map[uint64]*meter)
	}
	sh.meters[fp] = m
	d.store.metered.Store(true)
	d.store.countMeterLocked(sh, fp, m, d.now) // nobody else uses the store yet
	return nil
}

// book reads a book and adds it to the history of its key, which stands before it if it has not expired.
func (d *decoder) book() error {
	if len(d.Left) < 8 {
		return damaged("a book of no key")
	}
	fp, b := d.Uint64(), new(transaction.Book)
	if text, ok := d.Text(); !ok || transaction.ReadBook(text, b) != nil {
		return damaged("a book that is cut")
	}
	if m := d.store.shard(fp).meters[fp]; m != nil {
		m.Book = b
		d.store.booked.Store(true)
		d.store.countMeterLocked(d.store.shard(fp), fp, m, d.now)
	}
	return nil
}

// event reads an event and adds it to the outbox.
func (d *decoder) event() error {
	var e transaction.Event
	if text, ok := d.Text(); !ok || e.UnmarshalBinary(text) != nil {
		return damaged("an event that is cut")
	}
	d.store.outbox.Add(e)
	return nil
}
