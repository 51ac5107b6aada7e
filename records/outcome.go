package records

import (
	"encoding/binary"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// outcomeAge is how long the outcome of a change with an idempotency key is kept at least.
	outcomeAge = 24 * time.Hour

	// maxIdempotencyKey is the most bytes of an idempotency key, and of the request beside it.
	maxIdempotencyKey = 256

	// forgetMost is the most old outcomes that one change removes.
	forgetMost = 100
)

// saved is the outcome of a change with an idempotency key.
type saved struct {
	Request  string `json:"request"`
	Revision uint64 `json:"revision,omitempty"`
	Refusal  *Error `json:"refusal,omitempty"`
	Cause    string `json:"cause,omitempty"` // of the refusal
}

// refusalCauses are the causes of the refusals that depend on other records. Only these are saved; a
// change with another fault can be corrected and sent again.
var refusalCauses = map[string]error{"conflict": ErrConflict, "missing": ErrMissing}

// refusalOf returns the refusal to save for an error, and its cause; nil if it must not be saved.
func refusalOf(err error) (*Error, string) {
	for name, cause := range refusalCauses {
		if refusal, ok := errors.AsType[*Error](err); ok && errors.Is(err, cause) {
			return &Error{Where: refusal.Where, Problem: refusal.Problem, Hint: refusal.Hint}, name
		}
	}
	return nil, ""
}

// recall looks for an earlier change with the same idempotency key. If there was one, it returns an
// outcome that is Repeated, or the error that the earlier change got.
func (f *File) recall(tx *bolt.Tx, c *Change) (Outcome, error) {
	name := []byte(c.IdempotencyKey)
	if len(name) == 0 {
		return Outcome{}, nil
	}
	value := tx.Bucket(outcomesBucket).Get(name)
	if value == nil {
		return Outcome{}, nil
	}
	known, err := decode[saved](f, name, value)
	switch {
	case err != nil:
		return Outcome{}, err
	case known.Request != c.Request:
		return Outcome{}, &Error{Where: "change: idempotency key", Problem: ErrReused.Error(), Hint: "use a new key for each request, and the same one only for its repeats", Err: ErrReused}
	case known.Refusal != nil:
		known.Refusal.Err = refusalCauses[known.Cause]
		return Outcome{}, known.Refusal
	}
	return Outcome{known.Revision, true}, nil
}

// remember saves the outcome of a change with an idempotency key, and removes old outcomes.
func (f *File) remember(tx *bolt.Tx, c *Change, now time.Time, s saved) error {
	ages, outcomes := tx.Bucket(agesBucket), tx.Bucket(outcomesBucket)
	if c.IdempotencyKey != "" {
		s.Request = c.Request
		value, err := encode([]byte(c.IdempotencyKey), s)
		if err != nil {
			return err
		}
		if err := outcomes.Put([]byte(c.IdempotencyKey), value); err != nil {
			return err
		}
		if err := ages.Put(append(age(now), c.IdempotencyKey...), nil); err != nil {
			return err
		}
	}
	for range forgetMost {
		name, _ := ages.Cursor().First()
		if name == nil || string(name) >= string(age(now.Add(-outcomeAge))) {
			return nil
		}
		if err := outcomes.Delete(name[len(age(now)):]); err != nil {
			return err
		}
		if err := ages.Delete(name); err != nil {
			return err
		}
	}
	return nil
}

// age returns a time as bytes in order.
func age(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixMicro())) }

// refuse saves that a change was refused, and returns the refusal.
func (f *File) refuse(c *Change, now time.Time, s saved) (result Outcome, refusal error) {
	err := f.update(func(tx *bolt.Tx) error {
		// Another caller may have sent the same change meanwhile.
		if result, refusal = f.recall(tx, c); refusal != nil || result.Repeated {
			return nil
		}
		refusal = &Error{Where: s.Refusal.Where, Problem: s.Refusal.Problem, Hint: s.Refusal.Hint, Err: refusalCauses[s.Cause]}
		return f.remember(tx, c, now, s)
	})
	if err != nil {
		return Outcome{}, err
	}
	return result, refusal
}
