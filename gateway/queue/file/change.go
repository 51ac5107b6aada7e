package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/gateway/queue"
	"stint/records/dbfile"
)

// stored is an entry in the file.
type stored struct {
	queue.Entry
	Number uint64 `json:"number"` // in its line; its order
}

// head is what the file knows of a line.
type head struct {
	Count int    `json:"count"` // unfinished records
	Last  uint64 `json:"last"`  // number of the last record
}

// change is a transaction.
type change struct{ tx *bolt.Tx }

// load returns an entry without request and answer.
func (c *change) load(id string) (*stored, error) {
	value := c.tx.Bucket(entriesBucket).Get([]byte(id))
	if value == nil {
		return nil, queue.ErrUnknown
	}
	one, err := dbfile.Decode[stored]([]byte(id), value)
	if err != nil {
		return nil, fmt.Errorf("damaged: record %w", err)
	}
	return &one, nil
}

// replace changes an entry and all that depends on it.
func (c *change) replace(old *queue.Entry, one *stored) error {
	one.ID, one.Line, one.Rule, one.Made, one.Size = old.ID, old.Line, old.Rule, old.Made, old.Size
	was, is := old.State.Unfinished(), one.State.Unfinished()
	if err := c.tx.Bucket(statesBucket).Delete(stateName(old)); err != nil {
		return err
	}
	var err error
	switch {
	case was && is:
		err = c.move(old, one)
	case was:
		err = c.leave(old, one.Number)
	case is:
		if c.tx.Bucket(dataBucket).Get([]byte(old.ID)) == nil {
			return fmt.Errorf("record %s: its request is not kept any more", old.ID)
		}
		_, err = c.join(one)
	}
	if err != nil {
		return err
	}
	return errors.Join(c.saveParts(one), c.count(old, &one.Entry))
}

// saveParts stores the entry and its answer, and drops what is not needed any more.
func (c *change) saveParts(one *stored) error {
	id, err := []byte(one.ID), error(nil)
	if !one.State.Counted() {
		err = c.tx.Bucket(dataBucket).Delete(id)
	}
	switch {
	case one.State == queue.Removed:
		return errors.Join(err, c.tx.Bucket(answersBucket).Delete(id), c.tx.Bucket(entriesBucket).Delete(id))
	case one.State == queue.Gone:
		err = errors.Join(err, c.tx.Bucket(answersBucket).Delete(id))
	case one.Answer != nil:
		err = errors.Join(err, c.put(answersBucket, id, one.Answer))
	}
	return errors.Join(err, c.save(one))
}

// save stores the entry alone, and puts it into the list of its state.
func (c *change) save(one *stored) error {
	value, err := dbfile.Encode([]byte(one.ID), one)
	if err != nil {
		return err
	}
	return errors.Join(c.tx.Bucket(entriesBucket).Put([]byte(one.ID), value), c.tx.Bucket(statesBucket).Put(stateName(&one.Entry), nil))
}

// join adds an entry to the end of its line and returns its place.
func (c *change) join(one *stored) (place int, err error) {
	h, err := c.head(one.Line)
	if err != nil {
		return 0, err
	}
	h.Count++
	h.Last++
	one.Number = h.Last
	err = errors.Join(c.setHead(one.Line, h), c.tx.Bucket(linesBucket).Put(lineName(one.Line, one.Number), []byte(one.ID)))
	if h.Count == 1 {
		err = errors.Join(err, c.tx.Bucket(dueBucket).Put(dueName(&one.Entry), nil))
	}
	return h.Count, err
}

// leave removes an entry from its line. If it was the first, the next one is due at its time.
func (c *change) leave(old *queue.Entry, number uint64) error {
	h, err := c.head(old.Line)
	if err != nil {
		return err
	}
	h.Count--
	first := c.first(old.Line) == old.ID
	err = errors.Join(c.tx.Bucket(linesBucket).Delete(lineName(old.Line, number)), c.setHead(old.Line, h))
	if err != nil || !first {
		return err
	}
	err = c.tx.Bucket(dueBucket).Delete(dueName(old))
	next := c.first(old.Line)
	if err != nil || next == "" {
		return err
	}
	one, err := c.load(next)
	if err != nil {
		return err
	}
	return c.tx.Bucket(dueBucket).Put(dueName(&one.Entry), nil)
}

// move changes the time of an entry that stays in its line.
func (c *change) move(old *queue.Entry, one *stored) error {
	if c.first(old.Line) != old.ID {
		return nil
	}
	due := c.tx.Bucket(dueBucket)
	return errors.Join(due.Delete(dueName(old)), due.Put(dueName(&one.Entry), nil))
}

// first returns the ID of the first record of a line; "" if it has none.
func (c *change) first(line string) string {
	prefix := append([]byte(line), 0)
	name, id := c.tx.Bucket(linesBucket).Cursor().Seek(prefix)
	if !hasPrefix(name, prefix) {
		return ""
	}
	return string(id)
}

func (c *change) head(line string) (h head, err error) {
	value := c.tx.Bucket(headsBucket).Get([]byte(line))
	if value == nil {
		return h, nil
	}
	return dbfile.Decode[head]([]byte(line), value)
}

func (c *change) setHead(line string, h head) error {
	if h.Count == 0 {
		return c.tx.Bucket(headsBucket).Delete([]byte(line))
	}
	return c.encode(headsBucket, []byte(line), h)
}

// numbers returns the numbers of a rule.
func (c *change) numbers(rule string) (n queue.Stats, err error) {
	value := c.tx.Bucket(rulesBucket).Get([]byte(rule))
	if value == nil {
		return n, nil
	}
	return dbfile.Decode[queue.Stats]([]byte(rule), value)
}

// count updates the numbers of the rule; old is nil for a new entry.
func (c *change) count(old, e *queue.Entry) error {
	n, err := c.numbers(e.Rule)
	if err != nil {
		return err
	}
	add := func(e *queue.Entry, by int) {
		switch {
		case e.State.Unfinished():
			n.Waiting += by
		case e.State == queue.Dead:
			n.Dead += by
		case e.State != queue.Removed:
			n.Kept += by
		}
		if e.State.Counted() {
			n.Bytes += int64(by) * e.Bytes()
		}
	}
	if old != nil {
		add(old, -1)
	}
	add(e, 1)
	if n == (queue.Stats{}) {
		return c.tx.Bucket(rulesBucket).Delete([]byte(e.Rule))
	}
	return c.encode(rulesBucket, []byte(e.Rule), n)
}

func (c *change) encode(bucket, name []byte, v any) error {
	value, err := dbfile.Encode(name, v)
	if err != nil {
		return err
	}
	return c.tx.Bucket(bucket).Put(name, value)
}

func (c *change) put(bucket, name, value []byte) error {
	return c.tx.Bucket(bucket).Put(name, dbfile.EncodeText(name, value))
}

// get returns a copy of a request or answer; nil if there is none.
func (c *change) get(bucket []byte, id string) ([]byte, error) {
	value := c.tx.Bucket(bucket).Get([]byte(id))
	if value == nil {
		return nil, nil
	}
	data, err := dbfile.Text([]byte(id), value)
	if err != nil {
		return nil, fmt.Errorf("damaged: the %s of record %w", bucket, err)
	}
	return bytes.Clone(data), nil
}

const timeBytes = 8

func appendTime(to []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(t.UnixMicro()))
}

// timeOf returns the time at the beginning of a name.
func timeOf(name []byte) time.Time { return time.UnixMicro(int64(binary.BigEndian.Uint64(name))) }

func dueName(e *queue.Entry) []byte { return append(appendTime(nil, e.At), e.ID...) }

func lineName(line string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(line), 0), number)
}

func stateKey(s queue.State) []byte { return append([]byte(s), 0) }

func stateName(e *queue.Entry) []byte {
	return append(appendTime(stateKey(e.State), e.ListTime()), e.ID...)
}

func hasPrefix(name, prefix []byte) bool { return name != nil && bytes.HasPrefix(name, prefix) }
