package replication

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"time"
)

// Hash identifies a history: it is the SHA-256 of the hash before it and the data of an entry.
type Hash [sha256.Size]byte

// String returns the hash as hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash is the inverse of String.
func ParseHash(text string) (h Hash, err error) {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != len(h) {
		return h, errors.New("not a hash of the log")
	}
	copy(h[:], sum)
	return h, nil
}

// Head is a place in a history: the number and the hash of an entry. The zero Head is the place
// before the first entry.
type Head struct {
	Number uint64
	Hash   Hash
}

// Next returns the entry with this data that follows h.
func (h Head) Next(data []byte) Entry {
	sum := sha256.New()
	sum.Write(h.Hash[:])
	sum.Write(data)
	e := Entry{Number: h.Number + 1, Data: data}
	sum.Sum(e.Hash[:0])
	return e
}

// Entry is one change of records. Data is what [Encode] returns.
type Entry struct {
	Number uint64 // 1 for the first entry, then without a gap
	Hash   Hash
	Data   []byte
}

// Head returns the place of the entry.
func (e *Entry) Head() Head { return Head{e.Number, e.Hash} }

// Write sets a key to a value, or deletes it.
type Write struct {
	Key, Value []byte
	Deleted    bool
}

// Node is one of the nodes that share a log.
type Node struct {
	Name     string
	Revision uint64    // of its records
	Seen     time.Time // when it last reached the server
}

// Log is a log that nodes share. The server keeps its last entries, and the state: what all writes
// of all entries together result in.
//
// No method blocks for long after ctx is done. An error that wraps [stint.ErrUnknown] means that an
// entry may have been appended, or will be: the answer was lost. After any other error nothing was
// appended, nor will be.
type Log interface {
	// Read returns entries after a number, oldest first, and the head. The first entry has a greater
	// number than the next one if the log no longer has that. It returns only some entries if there
	// are many, but at least one if the log has one. If there is none it waits for one, for as long
	// as wait. The entries and the head are of the same moment.
	Read(ctx context.Context, after uint64, wait time.Duration) ([]Entry, Head, error)

	// Append appends an entry with its writes and returns its place, or the head of the log if that
	// is not after. With forget it drops all entries before it. The error wraps [ErrRestoring] while
	// a node restores the state.
	Append(ctx context.Context, after Head, e *Entry, writes []Write, forget bool) (Head, error)

	// State calls page with all keys and values of the state. Values that change meanwhile are old or
	// new, so the caller reads the log from a place before the state to one after it.
	State(ctx context.Context, page func([]Write) error) error

	// Restore replaces the state by pages, and the head, if it is still instead. The log is then
	// empty. It reports false, and changes nothing, if the head is another or another node restores.
	Restore(ctx context.Context, instead, head Head, pages iter.Seq2[[]Write, error]) (bool, error)

	// Beat stores what this node has. It returns what all nodes have that were seen within a day, and
	// the time of the server.
	Beat(ctx context.Context, own Node) ([]Node, time.Time, error)
}

// ErrRestoring is the cause of an error of Append.
var ErrRestoring = errors.New("a node is restoring the records")

// ErrLater is the error of [Decode] about data of a later format.
var ErrLater = errors.New("written by a later version of stint")

var errEntry = errors.New("not an entry of the log")

// format is the first byte of Data.
const format = 1

// forgets is the flag in the second byte of Data, see Encode.
const forgets = 1

// Encode returns the data of an entry. forget means that the entries before this one contain texts
// that must be forgotten: nobody keeps their data.
//
// The data are the format, flags, and for each write the length of the key, the key, the length of
// the value plus 1 (0 if the write deletes the key), and the value.
func Encode(writes []Write, forget bool) []byte {
	size := 2
	for i := range writes {
		size += 2*binary.MaxVarintLen32 + len(writes[i].Key) + len(writes[i].Value)
	}
	data := append(make([]byte, 0, size), format, 0)
	if forget {
		data[1] = forgets
	}
	for i := range writes {
		w := &writes[i]
		data = append(binary.AppendUvarint(data, uint64(len(w.Key))), w.Key...)
		if w.Deleted {
			data = append(data, 0)
			continue
		}
		data = append(binary.AppendUvarint(data, uint64(len(w.Value))+1), w.Value...)
	}
	return data
}

// Decode is the inverse of Encode. The writes refer to the memory of data.
func Decode(data []byte) (writes []Write, forget bool, err error) {
	switch {
	case len(data) < 2:
		return nil, false, errEntry
	case data[0] > format, data[1] > forgets:
		return nil, false, ErrLater
	case data[0] < format:
		return nil, false, errEntry
	}
	forget, data = data[1] == forgets, data[2:]
	next := func(less uint64) []byte {
		n, size := binary.Uvarint(data)
		if size <= 0 || n < less || n-less > uint64(len(data)-size) {
			err = errEntry
			return nil
		}
		text := data[size : size+int(n-less)]
		data = data[size+int(n-less):]
		return text
	}
	for len(data) > 0 && err == nil {
		w := Write{Key: next(0)}
		if w.Deleted = err == nil && len(data) > 0 && data[0] == 0; w.Deleted {
			data = data[1:]
		} else if err == nil {
			w.Value = next(1)
		}
		writes = append(writes, w)
	}
	if err != nil {
		return nil, false, err
	}
	return writes, forget, nil
}
