// Package memory keeps the states of limits in this process.
package memory

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/system"
	"stint/internal/transaction"
	"stint/migrate"
)

// DefaultBudget is how many bytes a store may use where Options are silent: room
// for about ten million token buckets.
const DefaultBudget = 256 << 20

// minBudget is the smallest budget; less leaves no room for the shards themselves.
const minBudget = 1 << 20

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Budget is how many bytes the states of all keys may take. 0 means
	// DefaultBudget; less than 1 MiB means 1 MiB. What happens when it is full is
	// said at Store. Raising it costs nothing until the keys are there.
	Budget int64

	// Clock is asked for the time of each call that does not bring its own. Nil is
	// the machine's clock, read once per call; it never runs backwards.
	Clock func() stint.Instant
}

// Store keeps the state of every key in memory. It is exact, safe for concurrent
// use, and never fails: Decide returns an error only for a call that no store could
// decide, among them [stint.ErrNoKey], and [stint.ErrNoLimit] for a nil or zero Limit. Take,
// which has no error to return, panics there. The zero Store is not usable, see New: Decide,
// WriteSnapshot and SaveFile return [stint.ErrNoStore], and Take panics.
//
// # What a key costs
//
// A key whose state is one number (token_bucket, leaky_bucket, and fixed_window of
// usual size) costs 16 bytes in an open-addressed table that is 68 to 85 % full, so
// 19 to 24 bytes, no allocation and no pointer for the garbage collector. A
// decision about it reads the clock once, touches one cache line of the table and
// changes it by one compare-and-swap, without a lock. Other states (sliding_log,
// sliding_window, calendar windows, a bucket in debt) live in a map per shard behind a mutex and cost
// 180 bytes and more; a fixed window without a log about 85.
//
// # Fingerprints
//
// The text of a key is not kept, only a 64-bit fingerprint of it and its algorithm,
// under a random seed of this store, so nobody outside can make two keys collide.
// Two keys that do collide by chance share one state: both together then get what
// one should. Among a million live keys there is such a pair once in 37 million
// stores, and a given key is hit once in 18 million million.
//
// # When it is full
//
// Expired states are dropped whenever a shard runs out of room, and by Sweep. If
// the budget is used up by live ones, keys that could still take go first, those
// nearest their reset before others, so a key that is over its limit is never
// forgotten before an idle one and a new key always finds a place. Only where all
// keys of a shard are over their limit are they forgotten too, the one nearest its
// reset first; Stats counts each kind. A shard is the part of all keys that shares
// the first bits of the fingerprint; work under its lock stays well below 1 ms. The keys
// of one call have room beside each other in any case: where its shards are full and small
// the store uses more than the budget, by at most 24 bytes for each new key of the call.
//
// # Restarts
//
// SaveFile keeps all states in a file and LoadFile begins with them, so that a
// restart forgives nobody; see WriteSnapshot and Load for what that promises. A store
// that is not told to keeps nothing.
type Store struct {
	seed    system.Seed
	epoch   stint.Epoch // the store forgets nothing while it is there
	shift   uint        // shard of a fingerprint: its top bits
	budget  int64
	clock   func() stint.Instant // nil: own
	own     system.Clock
	limits  registry
	shards  []shard
	tables  []atomic.Pointer[table] // of the shards, close together
	bytes   atomic.Int64            // of all tables and cells
	counts  counters
	calls   sync.Pool // *call
	scratch sync.Pool // *[]entry
}

var _ stint.Store = (*Store)(nil)

// New returns an empty store.
func New(options Options) *Store {
	budget := options.Budget
	if budget == 0 {
		budget = DefaultBudget
	}
	budget = max(budget, minBudget)
	// A shard's table then has at most 16,384 slots, which are gone through in a
	// fraction of a millisecond.
	n := max(64, 1<<bits.Len64(uint64(budget-1)/(256<<10)))
	s := &Store{
		seed: system.NewSeed(), shift: uint(64 - bits.Len64(uint64(n-1))),
		budget: budget, clock: options.Clock, shards: make([]shard, n), tables: make([]atomic.Pointer[table], n),
	}
	s.own.Start(time.Now())
	s.epoch.Began = max(1, s.now(0))
	name := func(t *stint.Take) uint64 { return s.print(t.Limit.Algorithm(), t.Key) }
	s.calls.New = func() any { return &call{Plan: transaction.Plan[uint64]{Name: name}} }
	s.scratch.New = func() any { return new([]entry) }
	empty := new(table)
	for i := range s.shards {
		s.shards[i].table = &s.tables[i]
		s.tables[i].Store(empty)
	}
	return s
}

// Take asks for cost units of limit for key at the store's own time. It is Decide
// for a single take, without the words around it, and allocates nothing. It panics where
// the key is empty, which would put strangers into one bucket, and where the limit is nil or
// zero or the store is.
func (s *Store) Take(key stint.Key, limit *stint.Limit, cost uint32) (d stint.Decision) {
	if key == "" || limit == nil || s.shards == nil {
		s.refuse(key, limit)
	}
	now := s.now(0)
	if limit.ForStores().Packed() && s.quick(s.print(limit.Algorithm(), key), limit, uint64(cost), now, &d) {
		return d
	}
	s.one(key, &query{limit: limit, cost: uint64(cost)}, &d)
	return d
}

// refuse panics with what is wrong with a take.
func (s *Store) refuse(key stint.Key, limit *stint.Limit) {
	c := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit}}}
	err := s.made()
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		panic("stint/store/memory: " + err.Error())
	}
}

// made returns an error for the zero Store.
func (s *Store) made() error {
	if s.shards == nil {
		return stint.ErrNoStore
	}
	return nil
}

// Decide answers the call, see stint.Store. It waits for nothing but other calls of the same
// keys, for less than a millisecond. A call of several takes that has to try again because of
// others looks at ctx before it does; where ctx has ended nothing was charged.
func (s *Store) Decide(ctx context.Context, c *stint.Call) error {
	if err := s.made(); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := transaction.CheckApart(c); err != nil {
		return err
	}
	c.SizeResults()
	joined := 0
	for i := range c.Takes {
		if !c.Takes[i].Independent {
			joined++
		}
	}
	if joined > 1 {
		if err := s.together(ctx, c, transaction.AllOrNone); err != nil {
			return err
		}
		ctx = context.Background() // what is begun is brought to its end
	}
	now := stint.Instant(0) // not known yet, or older than what was decided last
	for i := 0; i < len(c.Takes); i++ {
		t := &c.Takes[i]
		if !t.Independent && joined > 1 {
			continue
		}
		if t.Borrows > 0 { // apart, with what it leans on
			if err := s.together(ctx, c, i); err != nil {
				return err
			}
			ctx, now = context.Background(), 0
			i += int(t.Borrows)
			continue
		}
		if now == 0 {
			now = s.now(c.At)
		}
		if t.Op != stint.Ask || t.Loan() != nil || !t.Limit.ForStores().Packed() || !s.quick(s.print(t.Limit.Algorithm(), t.Key), t.Limit, uint64(t.Cost), now, &c.Results[i]) {
			s.one(t.Key, &query{limit: t.Limit, op: t.Op, cost: uint64(t.Cost), undo: t.Undo, at: c.At, loan: s.loan(t)}, &c.Results[i])
			now = 0
		}
	}
	return nil
}

// now returns the time of a call that brings at.
func (s *Store) now(at stint.Instant) stint.Instant {
	switch {
	case at != 0:
		return at
	case s.clock != nil:
		return s.clock()
	}
	return s.own.Now()
}

// present sets the time of a query. It is called when the state has been read, or cannot change
// any more. A goroutine may stand still between two lines: a time from before may lie before the
// last write of the state, which then seems to be from the future, and tokens come back that
// nobody gave back.
func (s *Store) present(q *query) { q.now = s.now(q.at) }

// query is one take.
type query struct {
	fp    uint64
	limit *stint.Limit
	cost  uint64
	at    stint.Instant // when to decide it; 0: by the clock
	now   stint.Instant // the time as it was once the state was there to be read, see Store.present
	undo  *stint.Decision
	loan  *stint.Loan // of a node that may hold something; nil for all others
	op    stint.Op
}

// one decides a take by itself, into d. It is right for every take; Take and Decide
// try quick first.
func (s *Store) one(key stint.Key, q *query, d *stint.Decision) {
	if q.limit.Check() != nil {
		s.refuse(key, q.limit) // Decide looked before
	}
	algorithm := q.limit.Algorithm()
	if algorithm == stint.Unlimited {
		*d = q.limit.Test(nil, s.now(q.at), q.cost)
		return
	}
	q.fp, q.now = s.print(algorithm, key), s.now(q.at)
	sh := s.shard(q.fp)
	for q.limit.ForStores().Packed() && q.loan == nil {
		switch s.narrow(sh, q, d) {
		case decided:
			return
		case elsewhere:
			s.wide(sh, q, d)
			return
		}
		runtime.Gosched()
	}
	s.wide(sh, q, d)
}

// print returns the fingerprint of a key, which is never one of the two marks.
func (s *Store) print(algorithm stint.Algorithm, key stint.Key) uint64 {
	fp := s.seed.Sum(uint8(algorithm), string(key))
	if fp+1 < 2 { // empty or closed
		fp = 2
	}
	return fp
}

func (s *Store) shard(fp uint64) *shard { return &s.shards[fp>>s.shift] }

// loan returns what a take has to tell about what a node was lent, nil for nothing.
func (s *Store) loan(t *stint.Take) *stint.Loan {
	if t.Loan() == nil || t.Loan().Node != 0 && t.Op == stint.Ask {
		return t.Loan()
	}
	t.Loan().Answer(s.epoch)
	return nil
}

// lend does what apply does for a node that tells what it was lent, and lends it more.
func (q *query) lend(r *migrate.Record, at stint.Instant, e stint.Epoch) stint.Decision {
	r.Report(q.limit, at, q.loan, e)
	d := q.apply(r, at)
	r.Lend(q.limit, at, q.loan, q.cost, &d)
	return d
}

// apply does the query's operation to a record as it is at a time.
func (q *query) apply(r *migrate.Record, at stint.Instant) stint.Decision {
	return r.Apply(q.op, q.limit, at, q.cost, q.undo)
}

// applyWord is apply on a packed state under the query's numbers; it returns the new one, above
// stateMask where that does not fit into a word, and then the map has to decide.
func (q *query) applyWord(word uint64, at stint.Instant, d *stint.Decision) uint64 {
	if q.op == stint.Ask {
		return q.limit.ForStores().TakeWord(word, at, q.cost, d)
	}
	r := migrate.Record{State: q.limit.ForStores().Unpack(word), Limit: q.limit}
	*d = q.apply(&r, at)
	return q.limit.ForStores().Pack(&r.State)
}

// since returns when to decide for an unknown key at now, where states that had expired were
// dropped at born: then, as what they forgot is not to be given out again; but now if the clock
// ran ahead at that time.
func since(now, born stint.Instant) stint.Instant {
	if born <= now || born.Future(now) {
		return now
	}
	return born
}

// late corrects a decision for now that had to be made for the later time at, because what
// came before that was forgotten: see table.born. The reservation of a bucket that holds was made
// at that time.
func late(now, at stint.Instant, limit *stint.Limit, d *stint.Decision) {
	by := at.Sub(now)
	if by <= 0 {
		return
	}
	if !limit.ForStores().Reserves() {
		d.At = now
	}
	if !d.Allowed && d.RetryAfter != stint.Never {
		d.RetryAfter += by
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += by
	}
}
