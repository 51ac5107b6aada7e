package memcached

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/memcached/meta"
)

// This file keeps a state as one item, which is read, changed by the arithmetic of the root package,
// and written back if nobody has written it meanwhile (compare-and-swap). The calls of this process
// that wait for one key are decided on one state, and written at once.

// item is an item of memcached: the first byte is itemVersion, then come the time of the last change in 8
// bytes, the numbers of the limit (see transaction.AppendSpec) and the state (see
// stint.State.AppendBinary).
type item struct {
	record  transaction.Record
	written stint.Instant // the time of the last change, by the clock of the node that made it
	text    []byte        // the value; nil: there is no item
	cas     uint64        // its version; 0: there is no item
}

const (
	itemVersion = 2

	// itemHead is the length of what stands before the numbers of the limit.
	itemHead = 1 + 8
)

// decide does a query on the item, and returns the time at which it did. That never goes back: if a node
// whose clock is ahead has changed the item, a node behind decides at that time until its own clock is
// later. Otherwise the node behind would move the state back, and the other would find it refilled. A
// node whose clock was corrected decides at that time until the item expires.
func (it *item) decide(s *Store, q *query) (d stint.Decision, now stint.Instant) {
	own := s.now(q.at)
	if q.at != 0 { // Call.At decides
		return q.apply(&it.record, own), own
	}
	now = max(own, it.written)
	ahead := now.Sub(own)
	if ahead > corrected && !q.fits(&it.record, now) {
		d = it.record.Test(q.limit, now, q.cost)
	} else {
		d = q.apply(&it.record, now)
	}
	if d.ResetAfter > 0 && d.ResetAfter != stint.Never {
		d.ResetAfter += min(ahead, corrected)
	}
	if d.RetryAfter > 0 && d.RetryAfter != stint.Never {
		d.RetryAfter = max(d.RetryAfter, min(d.RetryAfter+ahead, d.ResetAfter))
	}
	return d, now
}

// corrected is by how much an item is ahead at least if a clock was corrected. Denied tries do not write
// such an item, so that it expires this long after it is untouched again.
const corrected = spare + 2*time.Second

// fits reports whether an operation is no take that is denied.
func (q *query) fits(r *transaction.Record, now stint.Instant) bool {
	cost := q.cost
	if q.op == stint.AskAtMost {
		cost = min(cost, 1)
	}
	return !q.op.Asks() || q.phase != transaction.Deny && r.Test(q.limit, now, cost).Allowed
}

// encode returns the value of a record; nil if the key is as if never used.
func encode(r *transaction.Record, written stint.Instant) []byte {
	if r.Limit == nil {
		return nil
	}
	// An emptied log keeps its time, so that time does not go back before the entries it dropped.
	if r.Limit.ForStores().Expiry(&r.State) == 0 && (r.State.T == 0 || r.State.Log == nil) {
		return nil
	}
	spec := r.Limit.Spec()
	head := binary.BigEndian.AppendUint64([]byte{itemVersion}, uint64(written))
	text, _ := r.State.AppendBinary(transaction.AppendSpec(head, &spec)) // it never fails
	return text
}

// decode reads the value of an item. limit is that of the query: most items have its numbers.
func (it *item) decode(name string, limit *stint.Limit) error {
	if len(it.text) < itemHead || it.text[0] != itemVersion {
		return &undecodable{name: name, why: "another program or another release wrote its value"}
	}
	it.written = stint.Instant(binary.BigEndian.Uint64(it.text[1:]))
	spec := limit.Spec()
	known := transaction.AppendSpec(nil, &spec)
	rest, same := bytes.CutPrefix(it.text[itemHead:], known)
	if it.record.Limit = limit; !same {
		var err error
		if it.record.Limit, rest, err = transaction.ReadSpec(it.text[itemHead:]); err != nil {
			return &undecodable{name: name, why: err.Error()}
		}
	}
	if err := it.record.State.UnmarshalBinary(rest); err != nil {
		return &undecodable{name: name, why: err.Error()}
	}
	return nil
}

// read reads the item of a query's key.
func (s *Store) read(ctx context.Context, name string, q *query) (*item, error) {
	replies, err := s.client.Do(ctx, place(name), meta.Get(name))
	if err != nil {
		return nil, explain("decide", err, false)
	}
	switch r := &replies[0]; r.Status {
	case meta.Missing:
		return new(item), nil
	case meta.Value:
		it := &item{text: r.Value, cas: r.CAS}
		return it, it.decode(name, q.limit)
	default:
		return nil, rejected("decide", r.Problem)
	}
}

// test decides a query that changes nothing. writes reports whether a take that is denied would change
// the state.
func (s *Store) test(ctx context.Context, q *query) (d stint.Decision, writes bool, err error) {
	it, err := s.read(ctx, s.keyName(q.limit.Algorithm(), "", q.key), q)
	if err != nil {
		return d, false, err
	}
	before := encode(&it.record, it.written)
	d, now := it.decide(s, q)
	if !d.Allowed {
		it.record.Take(q.limit, now, q.cost)
		writes = !bytes.Equal(before, encode(&it.record, it.written))
	}
	return d, writes, nil
}

// queue is the calls of this process that wait for one key. One goroutine serves it while there are
// any.
type queue struct {
	waiting []*waiter
}

// waiter is a call that waits for its decision.
type waiter struct {
	*query
	ctx     context.Context
	until   time.Time // the caller's deadline; zero: none
	result  stint.Decision
	err     error
	writing bool          // its decision is being written, so it may be charged; guarded by Store.mu
	gone    bool          // its caller has stopped waiting; guarded by Store.mu
	done    chan struct{} // closed when result or err is set
}

// change decides a query that may change the item of its key.
func (s *Store) change(ctx context.Context, q *query) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		return stint.Decision{}, errNotSent(err)
	}
	name := s.keyName(q.limit.Algorithm(), "", q.key)
	w := &waiter{query: q.kept(), ctx: ctx, done: make(chan struct{})}
	s.mu.Lock()
	k := s.queues[name]
	if k == nil {
		k = new(queue)
		if !s.background.Go(func() { s.serve(name, k) }) {
			s.mu.Unlock()
			return stint.Decision{}, errNotSent(meta.ErrClosed)
		}
		s.queues[name] = k
	}
	k.waiting = append(k.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.result, w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done: // it came just now
		return w.result, w.err
	default:
	}
	if w.writing {
		return stint.Decision{}, explain("decide", ctx.Err(), true)
	}
	w.gone = true
	k.waiting = slices.DeleteFunc(k.waiting, func(o *waiter) bool { return o == w })
	return stint.Decision{}, explain("decide", ctx.Err(), false)
}

// kept returns a copy that may be used after the call has returned: without what belongs to the caller.
func (q *query) kept() *query {
	k := *q
	if k.key = ""; q.undo != nil {
		k.undo = new(*q.undo)
	}
	return &k
}

// maxMerged is how many calls are decided on one state at most.
const maxMerged = 1024

// serve decides the calls that wait for a key, until there are no more.
func (s *Store) serve(name string, k *queue) {
	var known *item // the item as this goroutine wrote it last; nil: it must be read
	for {
		group := s.group(name, k)
		if group == nil {
			return
		}
		known = s.decideGroup(name, group, known)
		for _, w := range group {
			close(w.done)
		}
		runtime.Gosched() // those who have just got their answers call again: decide them on the known item
	}
}

// group removes from a queue those that are decided next. If there are none it removes the queue, and
// returns nil.
func (s *Store) group(name string, k *queue) []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(k.waiting) == 0 {
		delete(s.queues, name)
		return nil
	}
	n := min(len(k.waiting), maxMerged)
	group := slices.Clone(k.waiting[:n])
	k.waiting = slices.Delete(k.waiting, 0, n)
	for _, w := range group {
		w.until, _ = w.ctx.Deadline() // the call leaves now: a guard's timeout begins
	}
	return group
}

// errConflict means that others have written the item meanwhile.
var errConflict = errors.New("memcached: others write the key all the time")

// decideGroup decides calls on one state, again and again until nobody else wrote it between. It
// returns the item as it wrote it; nil if it must be read again.
func (s *Store) decideGroup(name string, group []*waiter, known *item) *item {
	until := transaction.LatestDeadline(len(group), func(i int) time.Time { return group[i].until })
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	for tries := 0; ; tries++ {
		next, err := s.decideOnce(ctx, name, group, known)
		if known = nil; errors.Is(err, errConflict) && ctx.Err() == nil {
			backOff(ctx, tries)
			continue
		}
		if err != nil {
			for _, w := range group {
				w.err = err
			}
			return nil
		}
		return next
	}
}

// backOff waits a moment before the next try, longer the more there were.
func backOff(ctx context.Context, tries int) {
	if tries < 2 {
		return
	}
	most := min(time.Duration(tries)*50*time.Microsecond, 2*time.Millisecond)
	wait := time.NewTimer(rand.N(most))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// maxItem is the longest value that is sent: memcached's items have at most 1 MiB, and when it refuses a
// longer one it forgets the old.
const maxItem = 1<<20 - 1024

// decideOnce decides calls on the known item, or on the one that it reads, and writes the result.
func (s *Store) decideOnce(ctx context.Context, name string, group []*waiter, known *item) (*item, error) {
	read := known == nil
	if read {
		var err error
		if known, err = s.read(ctx, name, group[0].query); err != nil {
			return nil, err
		}
	}
	next := item{record: transaction.Record{Limit: known.record.Limit}, written: known.written}
	known.record.State.CopyTo(&next.record.State)
	life, latest := time.Duration(0), known.written
	s.mark(group, true)
	for _, w := range group {
		if w.writing {
			var now stint.Instant
			w.result, now = next.decide(s, w.query)
			latest = max(latest, now)
			if next.record.Limit != nil {
				life = max(life, s.life(w.query, now, next.record.Limit.ForStores().Expiry(&next.record.State)))
			}
		}
	}
	next.text = encode(&next.record, known.written)
	if bytes.Equal(next.text, known.text) {
		s.mark(group, false)
		if !read { // others may have changed the item since it was written here
			return nil, errConflict
		}
		return known, nil
	}
	if next.written = latest; next.text != nil {
		binary.BigEndian.PutUint64(next.text[1:], uint64(latest))
	}
	if len(next.text) > maxItem {
		s.mark(group, false)
		return nil, tooLarge(name, len(next.text))
	}
	write := meta.Set(name, next.text, meta.TTL(life, time.Now()), known.cas)
	if next.text == nil {
		write = meta.Delete(name, known.cas)
	}
	replies, err := s.client.Do(ctx, place(name), write)
	if err != nil {
		if !errors.Is(err, meta.ErrLost) {
			s.mark(group, false)
		}
		return nil, explain("decide", err, true)
	}
	switch replies[0].Status {
	case meta.Done:
		next.cas = replies[0].CAS
		if next.text == nil {
			return nil, nil
		}
		return &next, nil
	case meta.Rejected:
		return nil, rejected("decide", replies[0].Problem)
	}
	s.mark(group, false)
	return nil, errConflict
}

// mark marks the calls of a group as being written, or not. Those whose callers have stopped waiting
// are not written.
func (s *Store) mark(group []*waiter, writing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range group {
		w.writing = writing && !w.gone
	}
}
