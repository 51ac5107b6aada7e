package replication

import (
	"bytes"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Tx is a transaction that records all writes to the buckets that it returns. What is written to
// buckets of the embedded transaction is not recorded: it is for this copy alone.
type Tx struct {
	*bolt.Tx

	writes []Write
	forget bool
}

// Bucket returns a bucket; nil if there is none. Nested buckets are not supported.
func (tx *Tx) Bucket(name []byte) *Bucket {
	b := tx.Tx.Bucket(name)
	if b == nil {
		return nil
	}
	return &Bucket{b, name, tx}
}

// Forget declares that the transaction erases texts. Other copies and the log must drop the data of
// all changes before.
func (tx *Tx) Forget() { tx.forget = true }

// Written returns the writes, and whether Forget was called.
func (tx *Tx) Written() (writes []Write, forget bool) { return tx.writes, tx.forget }

// Bucket is a bucket of a Tx.
type Bucket struct {
	bucket *bolt.Bucket
	name   []byte
	tx     *Tx
}

// Get returns the value of a key; nil if there is none.
func (b *Bucket) Get(key []byte) []byte { return b.bucket.Get(key) }

// Cursor returns a cursor. It must only read, as its Delete is not recorded.
func (b *Bucket) Cursor() *bolt.Cursor { return b.bucket.Cursor() }

// Grows declares that keys are added at the end only, so that pages are filled completely.
func (b *Bucket) Grows() { b.bucket.FillPercent = 1 }

// Put sets the value of a key.
func (b *Bucket) Put(key, value []byte) error {
	b.tx.writes = append(b.tx.writes, Write{Key: WriteKey(b.name, key), Value: slices.Clone(value)})
	return b.bucket.Put(key, value)
}

// Delete deletes a key. It does nothing if there is none.
func (b *Bucket) Delete(key []byte) error {
	if b.bucket.Get(key) == nil {
		return nil
	}
	b.tx.writes = append(b.tx.writes, Write{Key: WriteKey(b.name, key), Deleted: true})
	return b.bucket.Delete(key)
}

// WriteKey returns the key of a write: the bucket, NUL, and the key in the bucket.
func WriteKey(bucket, key []byte) []byte { return slices.Concat(bucket, []byte{0}, key) }

// Split returns the bucket of a write, and the key in the bucket.
func Split(w *Write) (bucket, key []byte) {
	bucket, key, _ = bytes.Cut(w.Key, []byte{0})
	return bucket, key
}

// Replay makes writes in a transaction. The error is ErrLater if there is one to a bucket that is
// not among the buckets, which exist.
func Replay(tx *bolt.Tx, buckets [][]byte, writes []Write) error {
	for i := range writes {
		name, key := Split(&writes[i])
		if !slices.ContainsFunc(buckets, func(b []byte) bool { return bytes.Equal(b, name) }) {
			return ErrLater
		}
		bucket := tx.Bucket(name)
		var err error
		if writes[i].Deleted {
			err = bucket.Delete(key)
		} else {
			err = bucket.Put(key, writes[i].Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
