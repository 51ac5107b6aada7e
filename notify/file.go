package notify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/dbfile"
)

// The buckets of the file. deliveries has the deliveries by receiver and ID. order has a key for each delivery,
// see placeOf, whose first bytes are the state and the receiver; so the next one that is due is the first key
// of its receiver. receivers has a receiverState by name.
var (
	deliveriesBucket = []byte("deliveries")
	orderBucket      = []byte("order")
	receiversBucket  = []byte("receivers")
)

// The most deliveries that one transaction sweeps or retries.
const batch = 500

// sweepEvery is the time between two sweeps of a receiver.
const sweepEvery = time.Minute

// File is a [Queue] in a file, for one process. Each change is on disk when its method returns.
type File struct {
	path string
	db   *bolt.DB

	// claiming is held while a claim reads the file, and while a lease ends. Otherwise a claim that began to read before a
	// result was stored would find the delivery waiting, and its lease ended.
	claiming sync.Mutex

	mu      sync.Mutex
	claimed map[string]lease     // by the key of the delivery; a crash ends all of them
	leases  int                  // number of leases so far
	swept   map[string]time.Time // by receiver
	counts  map[string]int       // number of keys in order, by their beginning
	dropped map[string]int       // by receiver, since its last claim; see Claimed
}

var _ Queue = (*File)(nil)

// lease is a claim of a delivery.
type lease struct {
	mark  string
	until time.Time
}

// receiverState is the stored state of a receiver.
type receiverState struct {
	Disabled, Paused time.Time
}

// OpenFile opens a file of deliveries, or creates it in an existing folder. The error is an [*Error].
func OpenFile(path string) (*File, error) {
	db, err := dbfile.Open(path, [][]byte{dbfile.About, deliveriesBucket, orderBucket, receiversBucket})
	if err != nil {
		return nil, fileError(path, err)
	}
	f := &File{path: path, db: db, claimed: map[string]lease{}, swept: map[string]time.Time{}, counts: map[string]int{}, dropped: map[string]int{}}
	err = f.view(func(tx *bolt.Tx) error {
		return tx.Bucket(orderBucket).ForEach(func(key, _ []byte) error {
			f.counts[beginning(key)]++
			return nil
		})
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }

// fileError returns the error of a file. What to do about damage is not what to do about damaged records.
func fileError(path string, err error) error {
	e := &Error{Where: path, Problem: err.Error(), Hint: "check the disk and the permissions of the file", Err: err}
	if fault, ok := errors.AsType[*dbfile.Fault](err); ok {
		e.Hint = fault.Hint
	}
	if errors.Is(err, dbfile.ErrDamaged) {
		e.Hint = "look for a faulty disk or another writer; move the file away to go on without the events that were not delivered yet"
	}
	return e
}

func (f *File) guard(do func() error) error {
	err := dbfile.Guard(do, func(how string) error { return dbfile.Damaged(how) })
	if _, known := errors.AsType[*Error](err); err == nil || known {
		return err
	}
	return fileError(f.path, err)
}

func (f *File) view(do func(tx *bolt.Tx) error) error {
	return f.guard(func() error { return f.db.View(do) })
}

// update changes the file. do must change it only through the change that it gets, which adjusts the counts after
// the commit.
func (f *File) update(do func(c *change) error) error {
	counts := map[string]int{}
	err := f.guard(func() error {
		return f.db.Update(func(tx *bolt.Tx) error { return do(&change{tx, counts}) })
	})
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for begin, n := range counts {
			f.counts[begin] += n
		}
	}
	return err
}

// change is a transaction that counts what it adds to order, by the beginning of the keys.
type change struct {
	tx     *bolt.Tx
	counts map[string]int
}

// keyOf returns the key of a delivery.
func keyOf(receiver, id string) []byte { return []byte(receiver + "\x00" + id) }

// beginOf returns the beginning of the keys in order of a receiver's deliveries in a state.
func beginOf(s State, receiver string) string { return string(s) + "\x00" + receiver + "\x00" }

// beginning returns the beginning of a key in order.
func beginning(key []byte) string {
	state, rest, _ := bytes.Cut(key, []byte{0})
	receiver, _, _ := bytes.Cut(rest, []byte{0})
	return beginOf(State(state), string(receiver))
}

// timeBytes is the length of a time in a key of order.
const timeBytes = 8

// placeOf returns the key of a delivery in order: state, receiver, when it is due or was tried last, ID.
func placeOf(d *Delivery) []byte {
	at := d.Tried
	if d.State == Waiting {
		at = d.Due
	}
	key := binary.BigEndian.AppendUint64([]byte(beginOf(d.State, d.Receiver)), uint64(max(0, at.UnixNano())))
	return append(key, d.Event.ID...)
}

// get returns a delivery, nil if there is none.
func get(tx *bolt.Tx, key []byte) (*Delivery, error) {
	value := tx.Bucket(deliveriesBucket).Get(key)
	if value == nil {
		return nil, nil //nolint:nilnil // no delivery
	}
	d, err := dbfile.Decode[Delivery](key, value)
	if err != nil {
		return nil, dbfile.Damaged(err.Error())
	}
	return &d, nil
}

// put stores a delivery, instead of old if that is not nil.
func (c *change) put(old, d *Delivery) error {
	if old != nil {
		if err := c.unplace(old); err != nil {
			return err
		}
	}
	key := keyOf(d.Receiver, d.Event.ID)
	value, err := dbfile.Encode(key, d)
	if err == nil {
		err = c.tx.Bucket(deliveriesBucket).Put(key, value)
	}
	if err == nil {
		err = c.tx.Bucket(orderBucket).Put(placeOf(d), nil)
	}
	c.counts[beginOf(d.State, d.Receiver)]++
	return err
}

// unplace removes a delivery from the order.
func (c *change) unplace(d *Delivery) error {
	c.counts[beginOf(d.State, d.Receiver)]--
	return c.tx.Bucket(orderBucket).Delete(placeOf(d))
}

// Add implements Queue.
func (f *File) Add(_ context.Context, list []Delivery) error {
	now := time.Now()
	return f.update(func(c *change) error {
		for i := range list {
			d := list[i]
			known, err := get(c.tx, keyOf(d.Receiver, d.Event.ID))
			if err != nil {
				return err
			}
			if known != nil {
				continue
			}
			d.State, d.Due, d.Result = Waiting, now, Result{}
			if err := c.put(nil, &d); err != nil {
				return err
			}
		}
		return nil
	})
}

// stateOf returns the stored state of a receiver.
func stateOf(tx *bolt.Tx, receiver string) (s receiverState, err error) {
	if value := tx.Bucket(receiversBucket).Get([]byte(receiver)); value != nil {
		if s, err = dbfile.Decode[receiverState]([]byte(receiver), value); err != nil {
			err = dbfile.Damaged(err.Error())
		}
	}
	return s, err
}

func (c *change) putState(receiver string, s receiverState) error {
	value, err := dbfile.Encode([]byte(receiver), s)
	if err != nil {
		return err
	}
	return c.tx.Bucket(receiversBucket).Put([]byte(receiver), value)
}

// statusOf returns the state of a receiver and the number of its deliveries.
func (f *File) statusOf(tx *bolt.Tx, receiver string) (ReceiverStatus, error) {
	s, err := stateOf(tx, receiver)
	f.mu.Lock()
	defer f.mu.Unlock()
	return ReceiverStatus{
		Waiting: f.counts[beginOf(Waiting, receiver)], Failed: f.counts[beginOf(Failed, receiver)], Delivered: f.counts[beginOf(Delivered, receiver)],
		Disabled: s.Disabled, Paused: s.Paused,
	}, err
}

// Claim implements Queue.
func (f *File) Claim(_ context.Context, c Claim) (claimed Claimed, err error) {
	now := time.Now()
	if err := f.sweep(c.Receiver, now, c.Keep); err != nil {
		return claimed, err
	}
	claimed.Wait = -1
	claimed.Dropped = f.takeDropped(c.Receiver)
	f.claiming.Lock()
	defer f.claiming.Unlock()
	err = f.view(func(tx *bolt.Tx) (err error) {
		claimed.Status, err = f.statusOf(tx, c.Receiver)
		if pause := claimed.Status.Paused.Sub(now); err != nil || pause > 0 {
			claimed.Wait = pause
			return err
		}
		for key, at := range from(tx, beginOf(Waiting, c.Receiver)) {
			switch {
			case at.After(now):
				claimed.sooner(at.Sub(now))
				return nil
			case len(claimed.Deliveries) == c.Max:
				claimed.Wait = 0
				return nil
			}
			l, fresh := f.claim(key, now, c.Lease)
			if !fresh {
				claimed.sooner(l.until.Sub(now))
				continue
			}
			d, err := get(tx, key)
			if err != nil {
				return err
			}
			if d != nil {
				d.Lease = l.mark
				claimed.Deliveries = append(claimed.Deliveries, *d)
			}
		}
		return nil
	})
	return claimed, err
}

// sooner lowers Wait to a time until one is due.
func (c *Claimed) sooner(wait time.Duration) {
	if c.Wait < 0 || wait < c.Wait {
		c.Wait = wait
	}
}

// claim marks a delivery as claimed, and returns the lease; if another claim has it, that one and false.
func (f *File) claim(key []byte, now time.Time, length time.Duration) (l lease, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l = f.claimed[string(key)]; l.until.After(now) {
		return l, false
	}
	f.leases++
	l = lease{strconv.Itoa(f.leases), now.Add(length)}
	f.claimed[string(key)] = l
	return l, true
}

// release ends a lease, unless another claim has the delivery now.
func (f *File) release(key []byte, mark string) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claimed[string(key)].mark == mark {
		delete(f.claimed, string(key))
	}
}

// holds reports whether the claim of a delivery is the last one.
func (f *File) holds(key []byte, mark string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claimed[string(key)].mark == mark
}

// from returns the keys of deliveries whose keys in order begin so, with the time in these, in their order.
func from(tx *bolt.Tx, begin string) func(yield func(key []byte, at time.Time) bool) {
	return func(yield func(key []byte, at time.Time) bool) {
		_, receiver, _ := strings.Cut(strings.TrimSuffix(begin, "\x00"), "\x00")
		c := tx.Bucket(orderBucket).Cursor()
		for place, _ := c.Seek([]byte(begin)); bytes.HasPrefix(place, []byte(begin)); place, _ = c.Next() {
			rest := place[len(begin):]
			if len(rest) < timeBytes {
				continue
			}
			at := time.Unix(0, int64(binary.BigEndian.Uint64(rest)))
			if !yield(keyOf(receiver, string(rest[timeBytes:])), at) {
				return
			}
		}
	}
}

// Save implements Queue.
func (f *File) Save(_ context.Context, d *Delivery, then Then) error {
	now := time.Now()
	key := keyOf(d.Receiver, d.Event.ID)
	holds := f.holds(key, d.Lease)
	if !holds && d.State != Delivered {
		return nil
	}
	err := f.update(func(c *change) error {
		old, err := get(c.tx, key)
		if err != nil || old == nil || old.State != Waiting && d.State != Delivered {
			return err // retried or swept meanwhile
		}
		fresh := *d
		fresh.Due = now.Add(then.After)
		if err := c.put(old, &fresh); err != nil {
			return err
		}
		s, err := stateOf(c.tx, d.Receiver)
		if err != nil || then.Pause == 0 && !then.Disable {
			return err
		}
		if then.Pause > 0 {
			s.Paused = now.Add(then.Pause)
		}
		if then.Disable && s.Disabled.IsZero() {
			s.Disabled = now
		}
		return c.putState(d.Receiver, s)
	})
	if holds && err == nil { // else it stays claimed until the lease ends
		f.release(key, d.Lease)
	}
	return err
}

// List implements Queue.
func (f *File) List(_ context.Context, q Query) (List, error) {
	list := List{Receivers: map[string]ReceiverStatus{}}
	err := f.view(func(tx *bolt.Tx) (err error) {
		for _, name := range f.names() {
			if list.Receivers[name], err = f.statusOf(tx, name); err != nil {
				return err
			}
			if q.Receiver != "" && q.Receiver != name {
				continue
			}
			found, err := newest(tx, q.State, name, q.Limit)
			if err != nil {
				return err
			}
			list.Deliveries = append(list.Deliveries, found...)
		}
		return nil
	})
	SortNewest(list.Deliveries)
	return List{list.Deliveries[:min(len(list.Deliveries), q.Limit)], list.Receivers}, err
}

// SortNewest sorts deliveries of one state: those that were tried last, or are due last, come first.
func SortNewest(list []Delivery) {
	at := func(d *Delivery) time.Time {
		if d.State == Waiting {
			return d.Due
		}
		return d.Tried
	}
	slices.SortStableFunc(list, func(a, b Delivery) int { return at(&b).Compare(at(&a)) })
}

// names returns the names of all receivers that have deliveries.
func (f *File) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for begin := range f.counts {
		_, name, _ := strings.Cut(strings.TrimSuffix(begin, "\x00"), "\x00")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newest returns the last deliveries of a receiver in a state.
func newest(tx *bolt.Tx, s State, receiver string, limit int) (list []Delivery, err error) {
	begin := beginOf(s, receiver)
	c := tx.Bucket(orderBucket).Cursor()
	c.Seek(append([]byte(begin[:len(begin)-1]), 1)) // behind the last one
	place, _ := c.Prev()
	if place == nil {
		if place, _ = c.Last(); place == nil {
			return nil, nil
		}
	}
	for ; len(list) < limit && bytes.HasPrefix(place, []byte(begin)) && len(place) >= len(begin)+timeBytes; place, _ = c.Prev() {
		d, err := get(tx, keyOf(receiver, string(place[len(begin)+timeBytes:])))
		if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, *d)
		}
	}
	return list, nil
}

// Retry implements Queue.
func (f *File) Retry(ctx context.Context, receiver, id string) (total int, err error) {
	for more := true; more && ctx.Err() == nil; {
		n := 0
		err = f.update(func(c *change) error {
			var list []Delivery
			if id != "" {
				d, err := get(c.tx, keyOf(receiver, id))
				if err != nil || d == nil || d.State == Waiting {
					return err
				}
				list = []Delivery{*d}
			} else if list, err = newest(c.tx, Failed, receiver, batch); err != nil {
				return err
			}
			n = len(list)
			return c.retry(receiver, list)
		})
		total += n
		more = err == nil && n == batch
	}
	return total, errors.Join(err, ctx.Err())
}

// retry makes deliveries wait again, and enables their receiver.
func (c *change) retry(receiver string, list []Delivery) error {
	now := time.Now()
	for i := range list {
		fresh := list[i]
		fresh.State, fresh.Due, fresh.Result = Waiting, now, Result{}
		if err := c.put(&list[i], &fresh); err != nil {
			return err
		}
	}
	return c.putState(receiver, receiverState{})
}

// takeDropped returns how many failed deliveries of a receiver were dropped since the last call.
func (f *File) takeDropped(receiver string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.dropped[receiver]
	delete(f.dropped, receiver)
	return n
}

// sweep deletes deliveries that ended long ago, and the oldest ones where more than keep ended, at most once in sweepEvery
// for each claiming receiver, or until none is left: a claim hands out much fewer than a sweep deletes.
func (f *File) sweep(receiver string, now time.Time, keep int) error {
	f.mu.Lock()
	due := now.Sub(f.swept[receiver]) >= sweepEvery
	f.mu.Unlock()
	if !due {
		return nil
	}
	drop, crowded, err := f.ended(now, keep)
	if err == nil && len(drop) > 0 {
		err = f.update(func(c *change) error { return c.remove(drop) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || len(drop) < batch {
		f.swept[receiver] = now
	}
	for name, n := range crowded {
		if err == nil {
			f.dropped[name] += n
		}
	}
	return err
}

// ended returns deliveries to delete, at most one batch, and how many of them are failed ones that are deleted only because
// there are more than keep, by receiver.
func (f *File) ended(now time.Time, keep int) (drop []Delivery, crowded map[string]int, err error) {
	crowded = map[string]int{}
	err = f.view(func(tx *bolt.Tx) error {
		for _, name := range f.names() {
			for state, age := range map[State]time.Duration{Delivered: KeepDelivered, Failed: KeepFailed} {
				excess := f.count(state, name) - keep
				for key, at := range from(tx, beginOf(state, name)) {
					old := now.Sub(at) >= age
					if !old && excess <= 0 || len(drop) == batch {
						break
					}
					excess--
					d, err := get(tx, key)
					if err != nil {
						return err
					}
					if d == nil {
						continue
					}
					drop = append(drop, *d)
					if !old && state == Failed {
						crowded[name]++
					}
				}
			}
		}
		return nil
	})
	return drop, crowded, err
}

// count returns the number of deliveries of a receiver in a state.
func (f *File) count(s State, receiver string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[beginOf(s, receiver)]
}

// remove deletes deliveries, except those that another sweep deleted, or that somebody retried, since they were read.
func (c *change) remove(list []Delivery) error {
	for i := range list {
		d := &list[i]
		key := keyOf(d.Receiver, d.Event.ID)
		now, err := get(c.tx, key)
		if err != nil {
			return err
		}
		if now == nil || now.State != d.State || !now.Tried.Equal(d.Tried) {
			continue
		}
		if err := errors.Join(c.unplace(d), c.tx.Bucket(deliveriesBucket).Delete(key)); err != nil {
			return err
		}
	}
	return nil
}
