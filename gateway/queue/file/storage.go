package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/gateway/queue"
	"stint/records/dbfile"
)

// Storage is a [queue.Storage] in a file. Open makes one.
type Storage struct{ db *bolt.DB }

var (
	_ queue.Lines   = (*Storage)(nil)
	_ queue.Records = (*Storage)(nil)
)

// Queue returns the storage for a queue.
func (s *Storage) Queue() queue.Storage { return queue.Storage{Lines: s, Records: s, Closer: s} }

// Close closes the file. Another process can open it then.
func (s *Storage) Close() error { return s.db.Close() }

// Put implements queue.Lines.
func (s *Storage) Put(ctx context.Context, e *queue.Entry, b queue.Bounds) (place int, err error) {
	err = s.update(ctx, func(c *change) error {
		numbers, err := c.numbers(e.Rule)
		if err != nil {
			return err
		}
		if numbers.Waiting+numbers.Dead >= b.Places || numbers.Bytes+e.Bytes() > b.Bytes {
			return queue.ErrFull
		}
		one := &stored{Entry: *e}
		if err := c.put(dataBucket, []byte(e.ID), e.Data); err != nil {
			return err
		}
		if place, err = c.join(one); err != nil {
			return err
		}
		return errors.Join(c.save(one), c.count(nil, &one.Entry))
	})
	if fault, ok := errors.AsType[*dbfile.Fault](err); ok && fault.Full {
		err = fmt.Errorf("%w: %w", queue.ErrFull, err)
	}
	return place, err
}

// Holds implements queue.Lines.
func (s *Storage) Holds(ctx context.Context, line string) (holds bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		holds = tx.Bucket(headsBucket).Get([]byte(line)) != nil
		return nil
	})
	return holds, err
}

// maxDamaged is how many damaged records Claim passes over.
const maxDamaged = 100

// Claim implements queue.Lines. If it finds only damaged records, it returns the error of one of them.
func (s *Storage) Claim(ctx context.Context, worker string, lease time.Duration) (claimed *queue.Entry, next time.Duration, err error) {
	next = -1
	idle := func(tx *bolt.Tx) bool {
		name, _ := tx.Bucket(dueBucket).Cursor().First()
		if name != nil {
			next = max(time.Until(timeOf(name)), 0)
		}
		return next != 0
	}
	waiting := false
	err = s.view(ctx, func(tx *bolt.Tx) error {
		waiting = idle(tx)
		return nil
	})
	if err != nil || waiting {
		return nil, next, err
	}
	err = s.update(ctx, func(c *change) error {
		claimed, next = nil, -1
		one, err := c.firstDue()
		if one == nil {
			return err
		}
		old := one.Entry
		if one.State == queue.Claimed && one.Sending {
			one.Tries++
			one.Reason = "the claim ran out while the request was sent"
		}
		one.State, one.Claimer, one.Sending, one.At = queue.Claimed, worker, false, time.Now().Add(lease)
		if err := c.replace(&old, one); err != nil {
			return err
		}
		claimed = &one.Entry
		claimed.Data, err = c.get(dataBucket, claimed.ID)
		return err
	})
	if err != nil { // nothing is claimed, also if the disk refused the claim
		return nil, next, err
	}
	return claimed, next, nil
}

// firstDue returns the first record that is due, nil if none is. Damaged ones are passed over.
func (c *change) firstDue() (*stored, error) {
	now, cursor := time.Now(), c.tx.Bucket(dueBucket).Cursor()
	var damage error
	passed := 0
	for name, _ := cursor.First(); name != nil && passed < maxDamaged; name, _ = cursor.Next() {
		if timeOf(name).After(now) {
			break
		}
		one, err := c.load(string(name[timeBytes:]))
		if err == nil {
			return one, nil
		}
		damage = err
		passed++
	}
	return nil, damage
}

// Renew implements queue.Lines.
func (s *Storage) Renew(ctx context.Context, id, worker string, lease time.Duration, sending bool) error {
	return s.Change(ctx, id, func(e *queue.Entry) error {
		if e.State != queue.Claimed || e.Claimer != worker {
			return queue.ErrLost
		}
		e.At, e.Sending = time.Now().Add(lease), sending
		return nil
	})
}

// Get implements queue.Records.
func (s *Storage) Get(ctx context.Context, id string) (e *queue.Entry, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		c := change{tx}
		one, err := c.load(id)
		if err != nil {
			return err
		}
		e = &one.Entry
		if e.Data, err = c.get(dataBucket, id); err != nil {
			return err
		}
		e.Answer, err = c.get(answersBucket, id)
		return err
	})
	return e, err
}

// Change implements queue.Records.
func (s *Storage) Change(ctx context.Context, id string, edit func(e *queue.Entry) error) error {
	return s.update(ctx, func(c *change) error {
		one, err := c.load(id)
		if err != nil {
			return err
		}
		old := one.Entry
		if err := edit(&one.Entry); err != nil {
			return err
		}
		return c.replace(&old, one)
	})
}

// List implements queue.Records.
func (s *Storage) List(ctx context.Context, state queue.State, after *queue.Entry, limit int) (list []*queue.Entry, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		c := change{tx}
		list = nil
		prefix := stateKey(state)
		from := prefix
		if after != nil {
			from = append(stateName(after), 0)
		}
		cursor := tx.Bucket(statesBucket).Cursor()
		for name, _ := cursor.Seek(from); hasPrefix(name, prefix) && len(list) < limit; name, _ = cursor.Next() {
			one, err := c.load(string(name[len(prefix)+timeBytes:]))
			if err != nil {
				return err
			}
			list = append(list, &one.Entry)
		}
		return nil
	})
	return list, err
}

// maxOldest is how many records Stats reads to find the oldest of each rule.
const maxOldest = 10_000

// Stats implements queue.Records. The oldest record of a rule is found among the 10,000 oldest of all;
// if it is younger, the time of the last of these is reported.
func (s *Storage) Stats(ctx context.Context) (stats map[string]queue.Stats, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		stats = map[string]queue.Stats{}
		c := change{tx}
		err := tx.Bucket(rulesBucket).ForEach(func(rule, value []byte) error {
			numbers, err := dbfile.Decode[queue.Stats](rule, value)
			stats[string(rule)] = numbers
			return err
		})
		if err != nil {
			return err
		}
		return errors.Join(c.oldest(stats, queue.Claimed), c.oldest(stats, queue.Waiting))
	})
	return stats, err
}

// oldest fills in the oldest record of each rule, among those of a state.
func (c *change) oldest(stats map[string]queue.Stats, state queue.State) error {
	prefix, read := stateKey(state), 0
	missing := map[string]bool{}
	for rule, numbers := range stats {
		if numbers.Waiting > 0 {
			missing[rule] = true
		}
	}
	cursor := c.tx.Bucket(statesBucket).Cursor()
	for name, _ := cursor.Seek(prefix); hasPrefix(name, prefix) && len(missing) > 0; name, _ = cursor.Next() {
		one, err := c.load(string(name[len(prefix)+timeBytes:]))
		if err != nil {
			return err
		}
		if missing[one.Rule] {
			delete(missing, one.Rule)
			stats[one.Rule] = older(stats[one.Rule], one.Made)
		}
		if read++; read == maxOldest {
			for rule := range missing {
				stats[rule] = older(stats[rule], one.Made)
			}
			break
		}
	}
	return nil
}

func older(numbers queue.Stats, made time.Time) queue.Stats {
	if numbers.Oldest.IsZero() || made.Before(numbers.Oldest) {
		numbers.Oldest = made
	}
	return numbers
}

// update makes a change, together with those of other goroutines, and syncs the file. do may be called
// several times.
func (s *Storage) update(ctx context.Context, do func(*change) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var own error // of do, as opposed to one of the disk
	err := s.guard(func() error {
		return s.db.Batch(func(tx *bolt.Tx) error {
			own = s.guard(func() error { return do(&change{tx}) })
			return own
		})
	})
	if err == nil || errors.Is(err, own) && own != nil {
		return err
	}
	fault := dbfile.Writing(err)
	fault.Hint = "make room or check the disk; accepted requests stay in the file"
	return fault
}

func (s *Storage) view(ctx context.Context, do func(*bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.guard(func() error { return s.db.View(do) })
}

func (s *Storage) guard(do func() error) error {
	return dbfile.Guard(do, func(how string) error { return damaged(how) })
}
