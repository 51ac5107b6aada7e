package records

import (
	"context"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/dbfile"
	"stint/records/replication"
)

// refusalCauses are the causes of the refusals that depend on other records. Only these are saved; a
// change with another fault can be corrected and sent again.
var refusalCauses = map[string]error{"conflict": ErrConflict, "missing": ErrMissing}

// refusalOf returns the refusal to save for an error; nil if it must not be saved.
func refusalOf(err error) *dbfile.Refusal {
	for name, cause := range refusalCauses {
		if refusal, ok := errors.AsType[*Error](err); ok && errors.Is(err, cause) {
			return &dbfile.Refusal{Where: refusal.Where, Problem: refusal.Problem, Hint: refusal.Hint, Cause: name}
		}
	}
	return nil
}

// refused returns the Error for a saved refusal.
func refused(r *dbfile.Refusal) *Error {
	return &Error{Where: r.Where, Problem: r.Problem, Hint: r.Hint, Err: refusalCauses[r.Cause]}
}

// recall returns the outcome of an earlier change with the same idempotency key: Repeated, or the
// error of then.
func (f *File) recall(tx *bolt.Tx, c *Change) (Outcome, error) {
	if c.IdempotencyKey == "" {
		return Outcome{}, nil
	}
	switch known, ok, err := dbfile.GetOutcome(tx, c.IdempotencyKey); {
	case err != nil:
		return Outcome{}, f.unreadable(err)
	case !ok:
		return Outcome{}, nil
	case known.Request != c.Request:
		return Outcome{}, &Error{Where: "change: idempotency key", Problem: ErrReused.Error(), Hint: "use a new key for each request, and the same one only for its repeats", Err: ErrReused}
	case known.Refusal != nil:
		return Outcome{}, refused(known.Refusal)
	default:
		return Outcome{known.Revision, true}, nil
	}
}

// remember saves the outcome of a change with an idempotency key, and removes old outcomes.
func (f *File) remember(tx *replication.Tx, c *Change, now time.Time, o dbfile.Outcome) error {
	if c.IdempotencyKey != "" {
		o.Request = c.Request
		if err := dbfile.PutOutcome(tx, c.IdempotencyKey, o, f.copy.LateTime(now)); err != nil {
			return err
		}
	}
	return dbfile.DropOutcomes(tx, f.copy.SafeTime(now))
}

// refuse saves that a change was refused, and returns the refusal.
func (f *File) refuse(ctx context.Context, c *Change, now time.Time, r *dbfile.Refusal) (result Outcome, refusal error) {
	err := f.update(ctx, func(tx *replication.Tx) error {
		// Another caller may have sent the same change meanwhile.
		if result, refusal = f.recall(tx.Tx, c); refusal != nil || result.Repeated {
			return nil
		}
		refusal = refused(r)
		return f.remember(tx, c, now, dbfile.Outcome{Refusal: r})
	}, func() {})
	if err != nil {
		return Outcome{}, err
	}
	return result, refusal
}
