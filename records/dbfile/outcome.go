package dbfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/text"
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

// maxKey is the most bytes of an idempotency key, and of the request beside it.
const maxKey = 256

// CheckKey returns the first fault of an idempotency key, "" for none, and of the request beside it.
func CheckKey(key, request string) (field, problem, hint string) {
	switch {
	case len(key) > maxKey || !text.Printable(key):
		return "idempotency key", fmt.Sprintf("longer than %d bytes, or with control characters", maxKey), "use a random text such as a UUID"
	case len(request) > maxKey:
		return "request", fmt.Sprintf("longer than %d bytes", maxKey), "use a hash of the request"
	}
	return "", "", ""
}

// Outcome is the outcome of a change with an idempotency key, which has no control characters.
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
	for _, name := range [][]byte{[]byte(key), hashOf(key)} {
		if value := tx.Bucket(outcomesBucket).Get(name); value != nil {
			o, err = Decode[Outcome](name, value)
			return o, err == nil, err
		}
	}
	return o, false, nil
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

// EraseOutcomes erases what names reports to be a text about somebody. It forgets an outcome whose key is one.
// An outcome whose refusal is one, or whose change has one of the revisions, may have a part of a name in its
// key: only the hash of the key is kept, by which GetOutcome still finds it. The refusal is replaced by
// instead, with its own cause. EraseOutcomes returns the number of these outcomes.
func EraseOutcomes(tx *replication.Tx, names func(text string) bool, revisions map[uint64]bool, instead Refusal) (erased int, err error) {
	ages, outcomes := tx.Bucket(agesBucket), tx.Bucket(outcomesBucket)
	found := map[string]*Outcome{} // by names in ages; nil: to forget
	c := ages.Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		key := name[ageBytes:]
		o, err := Decode[Outcome](key, outcomes.Get(key))
		if err != nil {
			return 0, err
		}
		refused := o.Refusal != nil && names(o.Refusal.Where+"\n"+o.Refusal.Problem+"\n"+o.Refusal.Hint)
		if refused {
			instead.Cause = o.Refusal.Cause
			o.Refusal = new(instead)
		}
		switch {
		case names(string(key)):
			found[string(name)] = nil
		case refused, o.Revision != 0 && revisions[o.Revision] && key[0] != hashed:
			found[string(name)] = &o
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		at, key := []byte(name), []byte(name[ageBytes:])
		if err := errors.Join(outcomes.Delete(key), ages.Delete(at)); err != nil {
			return 0, err
		}
		o := found[name]
		if o == nil {
			continue
		}
		if key[0] != hashed {
			key = hashOf(name[ageBytes:])
		}
		if err := errors.Join(put(tx, key, *o), ages.Put(append(at[:ageBytes:ageBytes], key...), nil)); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// hashed is the first byte of the hash of a key, which no key has.
const hashed = 0

// hashOf returns the hash that stands for a key.
func hashOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append([]byte{hashed}, sum[:]...)
}

const ageBytes = 8

// age returns a time as bytes in order; all times before 1970 are one.
func age(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(max(0, t.UnixMicro())))
}
