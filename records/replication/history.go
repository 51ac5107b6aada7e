package replication

import (
	"encoding/binary"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The buckets of a copy that are not shared. placeBucket has these keys; historyBucket has the
// last entries by their numbers.
var (
	placeBucket   = []byte("replication")
	historyBucket = []byte("replication log")
	headKey       = []byte("head")   // number and hash of the last entry
	syncedKey     = []byte("synced") // when the copy was certainly up to date, Unix time in microseconds
	nodeKey       = []byte("node")   // random part of this node's name
	forgetKey     = []byte("forget") // there if the history has texts that must be forgotten: since when
)

// The bounds of the entries in a copy, as in Redis.
const (
	maxEntries = 10_000
	maxBytes   = 64 << 20

	// dropMost is the most entries that one transaction drops.
	dropMost = 1000
)

// An entry in the history: hash, bytes of all entries up to it, and data; no data if they were
// forgotten.
const (
	hashBytes = len(Hash{})
	sumBytes  = 8
)

// headOf returns the place of the copy; the zero Head if it has no history.
func headOf(tx *bolt.Tx) (h Head) {
	b := tx.Bucket(placeBucket)
	if b == nil {
		return h
	}
	if value := b.Get(headKey); len(value) == 8+hashBytes {
		h.Number = binary.BigEndian.Uint64(value)
		copy(h.Hash[:], value[8:])
	}
	return h
}

// setHead stores the place of the copy.
func setHead(tx *bolt.Tx, h Head) error {
	return tx.Bucket(placeBucket).Put(headKey, append(binary.BigEndian.AppendUint64(nil, h.Number), h.Hash[:]...))
}

func setSynced(tx *bolt.Tx, at time.Time) error {
	return tx.Bucket(placeBucket).Put(syncedKey, timeOf(at))
}

func timeOf(at time.Time) []byte { return nameOf(uint64(at.UnixMicro())) }

// syncedAt returns when the copy was certainly up to date; the zero time if it never was.
func syncedAt(tx *bolt.Tx) time.Time { return timeIn(tx, syncedKey) }

// timeIn returns the time under a key; the zero time if there is none.
func timeIn(tx *bolt.Tx, key []byte) time.Time {
	if b := tx.Bucket(placeBucket); b != nil {
		if value := b.Get(key); len(value) == 8 {
			return time.UnixMicro(int64(binary.BigEndian.Uint64(value)))
		}
	}
	return time.Time{}
}

func nameOf(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// keep adds an entry to the history, makes it the place of the copy, and drops old entries.
func keep(tx *bolt.Tx, e *Entry) error {
	writes, forget, err := Decode(e.Data)
	if err == nil && forget {
		err = forgetData(tx, len(writes) > 0)
	}
	if err != nil {
		return err
	}
	history := tx.Bucket(historyBucket)
	cursor := history.Cursor()
	var sum uint64
	if _, last := cursor.Last(); len(last) >= hashBytes+sumBytes {
		sum = binary.BigEndian.Uint64(last[hashBytes:])
	}
	sum += uint64(len(e.Data))
	value := make([]byte, 0, hashBytes+sumBytes+len(e.Data))
	value = append(binary.BigEndian.AppendUint64(append(value, e.Hash[:]...), sum), e.Data...)
	if err := history.Put(nameOf(e.Number), value); err != nil {
		return err
	}
	for range dropMost {
		name, oldest := history.Cursor().First()
		if len(name) != 8 || len(oldest) < hashBytes+sumBytes {
			break
		}
		before := binary.BigEndian.Uint64(oldest[hashBytes:]) - uint64(len(oldest)-hashBytes-sumBytes)
		number := binary.BigEndian.Uint64(name)
		if number == e.Number || number+maxEntries > e.Number && sum-before <= maxBytes {
			break
		}
		if err := history.Delete(name); err != nil {
			return err
		}
	}
	return setHead(tx, e.Head())
}

// forgetData drops the data of all entries of the history, and keeps their hashes. again means that the
// entry after them must be forgotten too: it has the names of what it deletes.
func forgetData(tx *bolt.Tx, again bool) error {
	history := tx.Bucket(historyBucket)
	var names, values [][]byte
	c := history.Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		if len(value) > hashBytes+sumBytes {
			names, values = append(names, slices.Clone(name)), append(values, slices.Clone(value[:hashBytes+sumBytes]))
		}
	}
	for i, name := range names {
		if err := history.Put(name, values[i]); err != nil {
			return err
		}
	}
	place := tx.Bucket(placeBucket)
	if !again {
		return place.Delete(forgetKey)
	}
	return place.Put(forgetKey, timeOf(time.Now()))
}

// toForget returns since when the history has texts that must be forgotten; the zero time if it has none.
func toForget(tx *bolt.Tx) time.Time { return timeIn(tx, forgetKey) }

// entryAt returns an entry of the history. ok is false if the history does not have it; its Data are
// nil if they were forgotten.
func entryAt(tx *bolt.Tx, number uint64) (e Entry, ok bool) {
	b := tx.Bucket(historyBucket)
	if b == nil {
		return e, false
	}
	value := b.Get(nameOf(number))
	if len(value) < hashBytes+sumBytes {
		return e, false
	}
	e.Number = number
	copy(e.Hash[:], value)
	if data := value[hashBytes+sumBytes:]; len(data) > 0 {
		e.Data = append(e.Data, data...)
	}
	return e, true
}

// contains reports whether a place is known to be in the history of the copy.
func contains(tx *bolt.Tx, h Head) bool {
	if h == headOf(tx) || h.Number == 0 {
		return true
	}
	e, ok := entryAt(tx, h.Number)
	return ok && e.Hash == h.Hash
}

// dropHistory makes the copy one without a history, because it is changed alone.
func dropHistory(tx *bolt.Tx) error {
	if tx.Bucket(placeBucket) == nil {
		return nil
	}
	if err := tx.DeleteBucket(placeBucket); err != nil {
		return err
	}
	return tx.DeleteBucket(historyBucket)
}
