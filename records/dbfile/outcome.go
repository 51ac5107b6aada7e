package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/replication"
)

const (
	// OutcomeAge is how long an outcome is kept at least.
	OutcomeAge = 24 * time.Hour

	// DropMost is how many old outcomes one call of DropOutcomes removes at most.
	DropMost = 100
)

var (
	outcomesBucket = []byte("outcomes")      // by idempotency key
	agesBucket     = []byte("outcome times") // time and idempotency key of each outcome
)

// OutcomeBuckets returns the names of the buckets of the outcomes. The caller creates them.
func OutcomeBuckets() [][]byte { return [][]byte{outcomesBucket, agesBucket} }

// Outcome is the outcome of a change.
type Outcome struct {
	Request  string   `json:"request"`
	Revision uint64   `json:"revision,omitempty"`
	Refusal  *Refusal `json:"refusal,omitempty"` // nil if the change was made
}

// Refusal says why a change was refused.
type Refusal struct {
	Where   string `json:"where"`
	Problem string `json:"problem"`
	Hint    string `json:"hint"`
	Cause   string `json:"cause"`
}

// GetOutcome returns the outcome of a change. It reports false if there is none. The error may be a
// [*ValueError].
func GetOutcome(tx *bolt.Tx, key string) (o Outcome, ok bool, err error) {
	value := tx.Bucket(outcomesBucket).Get([]byte(key))
	if value == nil {
		return o, false, nil
	}
	o, err = Decode[Outcome]([]byte(key), value)
	return o, err == nil, err
}

// PutOutcome saves the outcome of a change that has none yet.
func PutOutcome(tx *replication.Tx, key string, o Outcome, now time.Time) error {
	return errors.Join(put(tx, []byte(key), o), tx.Bucket(agesBucket).Put(append(age(now), key...), nil))
}

func put(tx *replication.Tx, key []byte, o Outcome) error {
	value, err := Encode(key, o)
	if err != nil {
		return err
	}
	return tx.Bucket(outcomesBucket).Put(key, value)
}

// DropOutcomes removes some outcomes that are older than OutcomeAge.
func DropOutcomes(tx *replication.Tx, now time.Time) error {
	ages, outcomes := tx.Bucket(agesBucket), tx.Bucket(outcomesBucket)
	for range DropMost {
		name, _ := ages.Cursor().First()
		if name == nil || string(name) >= string(age(now.Add(-OutcomeAge))) {
			return nil
		}
		if err := errors.Join(outcomes.Delete(name[ageBytes:]), ages.Delete(name)); err != nil {
			return err
		}
	}
	return nil
}

// EraseOutcomes erases what names reports to be a text about somebody: it forgets an outcome whose key is one,
// and replaces the refusal of another by instead, with its own cause. It returns their number.
func EraseOutcomes(tx *replication.Tx, names func(text string) bool, instead Refusal) (erased int, err error) {
	ages, outcomes := tx.Bucket(agesBucket), tx.Bucket(outcomesBucket)
	var found [][]byte // in ages
	c := ages.Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		o, err := Decode[Outcome](name[ageBytes:], outcomes.Get(name[ageBytes:]))
		if err != nil {
			return 0, err
		}
		if r := o.Refusal; names(string(name[ageBytes:])) || r != nil && names(r.Where+"\n"+r.Problem+"\n"+r.Hint) {
			found = append(found, bytes.Clone(name))
		}
	}
	for _, name := range found {
		key := name[ageBytes:]
		if names(string(key)) {
			err = errors.Join(outcomes.Delete(key), ages.Delete(name))
		} else {
			err = blank(tx, key, instead)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// blank replaces the refusal of an outcome.
func blank(tx *replication.Tx, key []byte, instead Refusal) error {
	o, _, err := GetOutcome(tx.Tx, string(key))
	if err != nil {
		return err
	}
	instead.Cause = o.Refusal.Cause
	o.Refusal = &instead
	return put(tx, key, o)
}

const ageBytes = 8

// age returns a time as bytes in order.
func age(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixMicro())) }
