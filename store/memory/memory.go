// Package memory stores the states of limits in the memory of this process.
package memory

import (
	"cmp"
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/system"
	"stint/internal/transaction"
)

// DefaultBudget is the budget of a store in bytes if Options set none: enough for about ten million
// token buckets.
const DefaultBudget = 256 << 20

// minBudget is the smallest budget; the shards themselves need that much.
const minBudget = 1 << 20

// Options are the optional settings of a Store. The zero value is ready to use.
type Options struct {
	// Budget is the most bytes that the states of all keys may use. 0 means DefaultBudget; less
	// than 1 MiB means 1 MiB. Store describes what happens when it is used up. A larger budget
	// costs no memory until there are keys.
	Budget int64

	// Namespace is part of the IDs of events, so that those of two services differ.
	Namespace string

	// Journal gets the state of each Durable key after each change, in the order of its changes; see
	// Replay. It is called under a lock, so it must be fast, must copy the record if it keeps it, and
	// must not call the store. Nil: none.
	Journal func(record []byte)

	// Clock returns the time of each call whose At is 0. Nil means the machine's clock, read once
	// per call; it never goes backwards.
	Clock func() stint.Instant
}

// Store keeps the state of every key in memory. It is exact, safe for concurrent use, and never
// fails: Decide returns an error only for a call that no store could decide, such as
// [stint.ErrNoKey], and [stint.ErrNoLimit] for a nil or zero Limit. Take, which returns no error,
// panics then. The zero Store is not usable, see New: its Decide, WriteSnapshot and SaveFile return
// [stint.ErrNoStore], and its Take panics.
//
// # Memory of a key
//
// A key whose state is one number (token_bucket, leaky_bucket, and fixed_window of usual size)
// needs 16 bytes in an open-addressed table that is 68 to 85 % full, so 19 to 24 bytes, no
// allocation and no pointer for the garbage collector. A decision about it reads the clock once,
// touches one cache line of the table and changes it by one compare-and-swap, without a lock. Other
// states (sliding_log, sliding_window, calendar windows, a bucket in debt) are in a map per shard
// behind a mutex and need 180 bytes and more; a fixed window without a log about 85.
//
// # Fingerprints
//
// Store does not keep the text of a key, only a 64-bit fingerprint of it and its algorithm, under a
// random seed of this store, so nobody outside can make two keys collide. Two keys that collide by
// chance share one state: together they get the limit of one. Among a million live keys there is
// such a pair once in 37 million stores, and a given key collides once in 18 million million.
//
// # Eviction
//
// Store drops expired states whenever a shard runs out of room, and in Sweep. If live keys use up
// the budget, Store evicts keys that could still take first, those nearest their reset before
// others. So it never evicts a key that is over its limit before an idle one, and a new key always
// gets a slot. Only if all keys of a shard are over their limit Store evicts such keys too, the one
// nearest its reset first; Stats counts each kind. A shard is the part of all keys that share the
// first bits of the fingerprint; work under its lock takes well below 1 ms. The keys of one call
// always fit together: if its shards are full and small the store uses more than the budget, by at
// most 24 bytes for each new key of the call.
//
// # Histories
//
// The use of a key by periods (see stint.Terms.Usage) is written under the same lock as its state, which
// is in the map then, and is not lost when that expires. It needs about 150 bytes and 40 for each
// period, and about 100 and 60 for each grant that was used. Events of thresholds are in an outbox until Done; it has room for transaction.MaxEvents.
//
// # Restarts
//
// SaveFile saves all states in a file and LoadFile loads them, so that a restart resets no limit;
// see WriteSnapshot and Load for the guarantees. Without them Store saves nothing.
type Store struct {
	seed    system.Seed
	epoch   stint.Epoch // one epoch, as the store never loses states
	shift   uint        // by which the top bits of a fingerprint give its shard
	budget  int64
	name    string               // Options.Namespace
	journal func([]byte)         // Options.Journal
	clock   func() stint.Instant // nil: use own
	own     system.Clock
	limits  registry
	shards  []shard
	tables  []atomic.Pointer[table] // table of each shard, close together in memory
	bytes   atomic.Int64            // size of all tables and cells
	counts  counters
	calls   sync.Pool // of *call
	scratch sync.Pool // of *[]entry

	penalties atomic.Bool        // whether the store ever had the state of a penalty
	metered   atomic.Bool        // whether the store ever had a history
	booked    atomic.Bool        // whether a history ever had a book
	outbox    transaction.Outbox // events of thresholds

	journalFrom atomic.Uint64 // see SetJournalFrom
}

var _ stint.Store = (*Store)(nil)

// New returns an empty store.
func New(options Options) *Store {
	budget := options.Budget
	if budget == 0 {
		budget = DefaultBudget
	}
	budget = max(budget, minBudget)
	// A shard's table then has at most 16,384 slots. To go through them takes a fraction of a
	// millisecond.
	n := max(64, 1<<bits.Len64(uint64(budget-1)/(256<<10)))
	s := &Store{
		seed: system.NewSeed(), shift: uint(64 - bits.Len64(uint64(n-1))),
		budget: budget, name: options.Namespace, journal: options.Journal, clock: options.Clock, shards: make([]shard, n), tables: make([]atomic.Pointer[table], n),
	}
	s.own.Start(time.Now())
	s.epoch.Began = max(1, s.now(0))
	name := func(t *stint.Take) uint64 { return s.fingerprint(t.Limit.Algorithm(), t.Key) }
	s.calls.New = func() any { return &call{Plan: transaction.Plan[uint64]{Name: name}} }
	s.scratch.New = func() any { return new([]entry) }
	empty := new(table)
	for i := range s.shards {
		s.shards[i].table = &s.tables[i]
		s.tables[i].Store(empty)
	}
	return s
}

// Take takes cost units of limit for key at the store's own time. It does the same as Decide for a
// single take, and allocates nothing. It panics if the key is empty, as all such clients would
// share one bucket, and if the limit or the store is nil or zero.
func (s *Store) Take(key stint.Key, limit *stint.Limit, cost uint32) (d stint.Decision) {
	if key == "" || limit == nil || s.shards == nil {
		s.panicInvalid(key, limit)
	}
	if limit.ForStores().Packed() && s.quick(s.fingerprint(limit.Algorithm(), key), limit, uint64(cost), s.now(0), &d) {
		return d
	}
	s.decideOne(key, &query{limit: limit, cost: uint64(cost)}, &d)
	return d
}

// TakeAtMost takes the largest number of units of limit from 1 to most that passes, for key at the
// store's own time, and returns it as Decision.Charged. It is denied if less than 1 unit is there. It
// panics like Take, and also if the limit overdraws.
func (s *Store) TakeAtMost(key stint.Key, limit *stint.Limit, most uint32) (d stint.Decision) {
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit, Cost: most, Op: stint.AskAtMost}}}
	if err := call.Check(); err != nil || s.shards == nil {
		panic("stint/store/memory: " + cmp.Or(s.checkMade(), err).Error())
	}
	s.decideOne(key, &query{limit: limit, op: stint.AskAtMost, cost: uint64(most)}, &d)
	return d
}

// panicInvalid panics with the error of a take.
func (s *Store) panicInvalid(key stint.Key, limit *stint.Limit) {
	c := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit}}}
	err := s.checkMade()
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		panic("stint/store/memory: " + err.Error())
	}
}

// checkMade returns an error for the zero Store.
func (s *Store) checkMade() error {
	if s.shards == nil {
		return stint.ErrNoStore
	}
	return nil
}

// Decide decides the call, see stint.Store. It waits only for other calls of the same keys, for
// less than a millisecond. If a call of several takes must try again because of others, it first
// checks ctx; if ctx is done nothing was charged.
func (s *Store) Decide(ctx context.Context, c *stint.Call) error {
	if err := s.checkMade(); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	c.SizeResults()
	if len(c.Takes) == 1 && isQuick(&c.Takes[0]) { // nearly always
		t := &c.Takes[0]
		if s.quick(s.fingerprint(t.Limit.Algorithm(), t.Key), t.Limit, uint64(t.Cost), s.now(c.At), &c.Results[0]) {
			return nil
		}
	}
	if err := cmp.Or(transaction.CheckApart(c), limits.CheckGrants(c)); err != nil {
		return err
	}
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
		ctx = context.Background() // the rest of a begun call is always decided
	}
	if len(c.Takes) < fewTakes {
		return s.apart(ctx, c, joined, nil)
	}
	var g group
	return s.apart(ctx, c, joined, &g)
}

// apart decides the takes of a call that are not decided together; joined is how many could be. g is nil in
// a call of few takes.
func (s *Store) apart(ctx context.Context, c *stint.Call, joined int, g *group) error {
	now := stint.Instant(0) // 0: not read yet, or too old after a slow decision
	for i := 0; i < len(c.Takes); i++ {
		t := &c.Takes[i]
		if !t.Independent && joined > 1 {
			continue
		}
		if t.Borrows > 0 { // decide it with its sources
			if err := s.together(ctx, c, i); err != nil {
				return err
			}
			ctx, now = context.Background(), 0
			i += int(t.Borrows)
			continue
		}
		if joined > 1 && t.InsteadOf() > 0 && transaction.DeniedBeside(c, i) {
			s.decideOne(t.Key, &query{limit: t.Limit, at: c.At}, &c.Results[i])
			transaction.Uncharged(t, &c.Results[i])
			now = 0
			continue
		}
		quick, fp := isQuick(t), uint64(0)
		if quick && now == 0 {
			now = s.now(c.At)
		}
		switch {
		case !quick:
		case g == nil:
			fp = s.fingerprint(t.Limit.Algorithm(), t.Key)
		default:
			fp = s.nextFingerprint(g, c, i)
			if n := g.same(c, i); n > 1 && joined < 2 && s.quickRun(fp, c.Takes[i:i+n], c.Results[i:i+n], now) {
				i += n - 1
				continue
			}
		}
		if !quick || !s.quick(fp, t.Limit, uint64(t.Cost), now, &c.Results[i]) {
			s.decideOne(t.Key, &query{limit: t.Limit, op: t.Op, cost: uint64(t.Cost), undo: t.Undo, at: c.At, loan: s.loan(t), take: transaction.WithHistory(t), durable: transaction.Durable(t)}, &c.Results[i])
			now = 0
		}
	}
	return nil
}

// isQuick reports whether quick can decide a take.
func isQuick(t *stint.Take) bool {
	return t.Op == stint.Ask && (t.Handling == nil || t.Handling.Loan == nil && t.Handling.Meter == nil && !transaction.Durable(t)) && t.Limit.ForStores().Packed()
}

// fewTakes is the number of takes from which nextFingerprint looks ahead.
const fewTakes = 4

// group has the fingerprints of takes that follow each other in a call, from number first on.
type group struct {
	first, n     int
	fingerprints [32]uint64
}

// nextFingerprint returns the fingerprint of take number i of a call. It first loads the slots of the takes that
// follow, all at the same time: one after another each would wait for the memory.
func (s *Store) nextFingerprint(g *group, c *stint.Call, i int) uint64 {
	t := &c.Takes[i]
	if i-g.first < g.n {
		return g.fingerprints[i-g.first]
	}
	if len(c.Takes)-i < fewTakes {
		return s.fingerprint(t.Limit.Algorithm(), t.Key)
	}
	g.first, g.n = i, min(len(c.Takes)-i, len(g.fingerprints))
	for n := range g.n {
		t = &c.Takes[i+n]
		g.fingerprints[n] = s.fingerprint(t.Limit.Algorithm(), t.Key)
	}
	for _, fp := range g.fingerprints[:g.n] {
		if slots := s.tables[fp>>s.shift].Load().slots; len(slots) > 0 {
			slots[firstSlot(fp, len(slots))].mark.Load()
		}
	}
	return g.fingerprints[0]
}

// same returns how many takes from number i on quick can decide that are for the same key and limit, as far as
// their fingerprints are known.
func (g *group) same(c *stint.Call, i int) int {
	n := 1
	for at := i + 1 - g.first; at < g.n && g.fingerprints[at] == g.fingerprints[at-1]; at++ {
		if t := &c.Takes[i+n]; t.Limit != c.Takes[i].Limit || t.Borrows > 0 || !isQuick(t) {
			break
		}
		n++
	}
	return n
}

// now returns the time of a call with this At.
func (s *Store) now(at stint.Instant) stint.Instant {
	switch {
	case at != 0:
		return at
	case s.clock != nil:
		return s.clock()
	}
	return s.own.Now()
}

// setTime sets the time of a query. The caller calls it after it has read the state, or when the
// state cannot change any more. A goroutine may be suspended between two lines: an earlier time may
// lie before the last write of the state, which would then count as from the future and give units
// back.
func (s *Store) setTime(q *query) { q.now = s.now(q.at) }

// query is one take.
type query struct {
	fp    uint64
	limit *stint.Limit
	cost  uint64
	at    stint.Instant // time of the decision; 0: by the clock
	now   stint.Instant // time after the state was read, see setTime
	undo  *stint.Decision
	loan  *stint.Loan // of a node that may have a lease; nil for others
	take  *stint.Take // the take, if its key has a history; nil for others
	op    stint.Op

	durable bool // the journal gets the state
}

// decideOne decides a take by itself, into d. It can decide every take; Take and Decide try quick
// first.
func (s *Store) decideOne(key stint.Key, q *query, d *stint.Decision) {
	if q.limit.Check() != nil {
		s.panicInvalid(key, q.limit) // Decide has checked it before
	}
	algorithm := q.limit.Algorithm()
	if algorithm == stint.Unlimited {
		*d = q.limit.Test(nil, s.now(q.at), q.cost)
		if q.op == stint.AskAtMost {
			d.Charge(q.cost)
		}
		return
	}
	q.fp = s.fingerprint(algorithm, key)
	sh := s.shard(q.fp)
	if !q.limit.ForStores().Packed() || q.loan != nil || q.take != nil || q.durable {
		s.decideInMap(sh, q, d)
		return
	}
	for {
		switch s.decideInTable(sh, q, d) {
		case decided:
			return
		case elsewhere:
			s.decideInMap(sh, q, d)
			return
		}
		runtime.Gosched()
	}
}

// fingerprint returns the fingerprint of a key. It is never empty or closed.
func (s *Store) fingerprint(algorithm stint.Algorithm, key stint.Key) uint64 {
	fp := s.seed.Sum(uint8(algorithm), string(key))
	if fp+1 < 2 { // empty or closed
		fp = 2
	}
	return fp
}

func (s *Store) shard(fp uint64) *shard { return &s.shards[fp>>s.shift] }

// loan returns the loan of a take if the node may have a lease, else nil; then it answers the loan.
func (s *Store) loan(t *stint.Take) *stint.Loan {
	if t.Loan() == nil || t.Loan().Node != 0 && t.Op.Asks() {
		return t.Loan()
	}
	t.Loan().Answer(s.epoch)
	return nil
}

// lend is apply for a node that reports its lease and asks for more.
func (q *query) lend(r *transaction.Record, at stint.Instant, e stint.Epoch) stint.Decision {
	r.Report(q.limit, at, q.loan, e)
	d := q.apply(r, at)
	cost := q.cost
	if q.op == stint.AskAtMost {
		cost = min(cost, 1) // what it is denied for
	}
	r.Lend(q.limit, at, q.loan, cost, &d)
	return d
}

// apply does the query's operation on a record at a time.
func (q *query) apply(r *transaction.Record, at stint.Instant) stint.Decision {
	return r.Apply(q.op, q.limit, at, q.cost, q.undo)
}

// applyWord is apply on a packed state under the query's numbers. It returns the new state; if that
// is above stateMask it does not fit into a word, and the map has to decide.
func (q *query) applyWord(word uint64, at stint.Instant, d *stint.Decision) uint64 {
	if q.op == stint.Ask {
		return q.limit.ForStores().TakeWord(word, at, q.cost, d)
	}
	r := transaction.Record{State: q.limit.ForStores().Unpack(word), Limit: q.limit}
	*d = q.apply(&r, at)
	return q.limit.ForStores().Pack(&r.State)
}
