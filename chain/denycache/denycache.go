// Package denycache caches denials of a store on the network in this process until their retry
// time.
package denycache

import (
	"context"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// Defaults of Options.
const (
	DefaultBytes  = 16 << 20
	DefaultMaxAge = time.Second
)

// Options are the optional settings of a Store. The zero value is ready to use.
type Options struct {
	// Notices sends messages between the processes that share the store when units are given back
	// to a key. Nil means that this process is the only one, and nothing else changes keys.
	Notices Notices

	// Bytes is the most memory of the cache; 0 means DefaultBytes, about 40,000 keys of ordinary
	// length. A full cache drops other keys, which then need one more call to the store.
	Bytes int64

	// MaxAge is the longest time that a cached answer is used, whatever its retry time; 0 means
	// DefaultMaxAge. A key that somebody deletes in the store by hand is free again after at most
	// this time. With a shorter one the store gets more calls: each process calls it once in
	// MaxAge, less a tenth, for a key that is denied all the time.
	MaxAge time.Duration

	// Divided means that the store decides a call of several keys in several steps, as a Cluster
	// does, and may charge units for a moment and then give them back. Other processes are notified
	// of such keys.
	Divided bool

	// Clock is this process's clock; nil means the machine's.
	Clock func() time.Time

	// OnChange is called when the notices of others begin to arrive, or stop: then with the reason.
	// Run calls it, one call at a time. It may be nil.
	OnChange func(up bool, reason error)
}

// Store is a stint.Store around a store that many processes share. It caches denials: it denies a
// take again without the store until the RetryAfter of the denial is over. So a client that does
// not wait costs the store one call for each time it may try, and one in Options.MaxAge. Make one
// with New and keep Run running; the zero Store is not usable. It is safe for concurrent use.
//
// # What is answered from the cache
//
// A denial is valid until its RetryAfter is over, but at most for Options.MaxAge, from before the
// store was called, by a monotonic clock (and by the wall clock, if a machine slept): other takes
// meanwhile can only prolong it. In the last tenth of MaxAge one caller calls the store again. The
// others get the cached answer until it is MaxAge old, and then wait for the new one. A denial
// answers takes of the same key under a limit of the same numbers and for the same cost. It answers
// a larger cost if its RetryAfter can be computed: under a steady token_bucket, a fixed_window, and
// if the cost is more than the limit's capacity. A smaller cost goes to the store. An AskAtMost is
// denied, and answered, like a cost of 1, whatever its own cost is.
//
// RetryAfter and ResetAfter are reduced by the time since, and Remaining is that of the last
// answer, even if other processes have passed smaller takes meanwhile; for a steady token_bucket it
// is computed. While the numbers of a limit change, a key may be denied for longer than by the
// store alone, as the store does not get every try; it is never allowed sooner.
//
// In a call of several takes the denied ones are answered like this, the others by the last answer
// of the store to this process, if they surely fit. An Independent take would be charged if it
// passes, so only its denial is answered.
//
// # What is not
//
// These always go to the store:
//
//   - calls with Handling.Live, Take.Borrows, Call.At, or an operation other than Ask and AskAtMost
//   - takes of a coordination other than strict, except some leased ones: if this process has no units
//     of the key and asks for none, and the cost is at most half of a token_bucket
//   - limits that a denied take changes, or that change by more than time: overdraw, count_denied,
//     start: used_up, count: responses (Spec.Reserve), and leaky_bucket
//   - takes with grants or a rollover: a larger cost than a denied one may have to wait longer, or for a
//     grant that begins
//
// A guard (see package guard) belongs inside: a cached denial needs no store and must not count as
// an answer of a store that is away. Answers of a guard's policies are not cached.
//
// # When a key is dropped
//
// If any process gives units of a key back (by a refund, a reset, a forced take except of a penalty,
// other numbers of its limit, Forget), it notifies all others by Options.Notices, and all drop the key at once, at
// the latest a second later: each process sends itself a beat four times a second, and if the last
// beat is older than that, it keeps its cache but does not use it. A process that loses its channel
// drops everything. An answer that was in flight when a notice came is not cached. In a Cluster
// whose nodes have lost each other, notices can be lost while beats arrive: then cached denials are
// used until MaxAge.
//
// A penalty whose step another process started is not noticed here before the cached answer about its
// key is MaxAge old. Meanwhile this process denies by what it knows.
//
// Deleting a key in the store by hand, or emptying it, sends no notice: cached denials are used
// until MaxAge.
//
// # When the retry time is over
//
// All clients that waited for a key come at once. One call goes to the store, and the others wait
// for its answer. If the answer leaves some units, as many of the others as there are units go next.
// So the store denies only one call, if no other process takes units at the same time.
type Store struct {
	inner    stint.Store
	notices  Notices
	maxAge   time.Duration
	divided  bool
	clock    func() time.Time
	onChange func(up bool, reason error)

	start    time.Time
	budget   int64 // bytes of a shard
	shards   [shardCount]shard
	records  atomic.Int64
	answered atomic.Uint64
	dropped  atomic.Uint64
	lost     atomic.Uint64

	channel channel
}

var _ stint.Store = (*Store)(nil)

// New returns a store that calls inner and caches its denials.
func New(inner stint.Store, options Options) *Store {
	s := &Store{
		inner: inner, notices: options.Notices, maxAge: options.MaxAge, divided: options.Divided,
		clock: options.Clock, onChange: options.OnChange, budget: options.Bytes / shardCount,
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.maxAge == 0 {
		s.maxAge = DefaultMaxAge
	}
	if options.Bytes == 0 {
		s.budget = DefaultBytes / shardCount
	}
	s.start = s.clock()
	for i := range s.shards {
		s.shards[i].records = make(map[uint64]*record)
	}
	s.channel.init()
	return s
}

// Stats are the numbers of a Store.
type Stats struct {
	Answered uint64 // calls answered from the cache
	Keys     int64  // number of cached keys
	Bytes    int64  // memory of the cache
	Dropped  uint64 // keys dropped before their time, by a notice or to make room
	Lost     uint64 // how often the notices of others stopped to arrive
	Up       bool   // whether they arrive
}

// Stats returns the present numbers.
func (s *Store) Stats() Stats {
	n := Stats{Answered: s.answered.Load(), Keys: s.records.Load(), Dropped: s.dropped.Load(), Lost: s.lost.Load(), Up: s.fresh(s.now())}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n.Bytes += sh.bytes
		sh.mu.Unlock()
	}
	return n
}

// Forget drops everything, here and in all processes. Call it after a change of limits.
func (s *Store) Forget() {
	s.Drop()
	s.notify(allKeys)
}

// Decide decides the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if !cacheable(call) {
		answered := false
		defer func() { s.changed(call, answered) }() // also after a panic
		err := s.inner.Decide(ctx, call)
		answered = err == nil
		return err
	}
	var a ask
	if known, err := s.recall(ctx, call, &a); known || err != nil {
		return err
	}
	answered := false
	defer func() { s.finish(call, &a, answered) }() // also after a panic
	err := s.inner.Decide(ctx, call)
	answered = err == nil && !degraded(call.Results)
	return err
}

// maxTakes is the most takes of a call that the cache can answer.
const maxTakes = 16

// cacheable reports whether the answer to a call can be cached.
func cacheable(call *stint.Call) bool {
	if call.At != 0 || len(call.Takes) == 0 || len(call.Takes) > maxTakes {
		return false
	}
	asks := false
	for i := range call.Takes {
		t := &call.Takes[i]
		if !t.Op.Asks() || t.Borrows > 0 || t.Live() || t.Limit == nil || t.Key == "" || limits.Granted(t) || !decidedByStore(t) || !lasting(t.Limit) {
			return false
		}
		for j := range i {
			if call.Takes[j].Key == t.Key && call.Takes[j].Limit.Algorithm() == t.Limit.Algorithm() {
				return false
			}
		}
		asks = asks || t.Cost > 0
	}
	return asks
}

// decidedByStore reports whether only the store decides a take: its rule is strict, or leased and
// this process has no units of the key and asks for none. It is false for a cost of more than half of
// a leased bucket: such a cost may not fit until other nodes return their units, and the cached denial
// of a smaller cost does not include that wait.
func decidedByStore(t *stint.Take) bool {
	if t.Coordination() == stint.Strict {
		return true
	}
	rare, most, cost := t.Loan() == nil || t.Loan().Node == 0, t.Limit.Capacity(), int64(transaction.DeniedCost(t))
	return t.Coordination() == stint.Leased && rare && (!steady(t.Limit) || cost <= most/2 || cost > most)
}

// lasting reports whether a denial under the limit changes nothing and stays valid until its retry
// time, whatever happens except that units are given back.
func lasting(limit *stint.Limit) bool {
	if a := limit.Algorithm(); a == stint.LeakyBucket || a == stint.Unlimited {
		return false
	}
	spec := limit.Spec()
	return !spec.Reserve && !spec.Overdraw && !spec.CountDenied && !spec.StartUsedUp && !spec.CarryDebt
}

// changed drops the keys of a call that the store decided, or may have decided if it has not
// answered. It notifies the other processes of keys to which units may have been given back.
func (s *Store) changed(call *stint.Call, answered bool) {
	held := s.records.Load() > 0
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Limit == nil {
			continue
		}
		h := hashOf(t.Key, t.Limit.Algorithm())
		switch {
		case !t.Op.Asks() && mayGiveBack(t):
			s.forget(h)
			s.notify(h)
		case answered && sameStep(t, &call.Results[i]):
		case held:
			s.dropCharged(h)
		}
	}
}

// sameStep reports whether what is cached about a penalty stays right after a take: a try was counted
// and no step runs, so that its key still passes.
func sameStep(t *stint.Take, d *stint.Decision) bool {
	return t.Limit.Algorithm() == stint.Penalty && t.Op != stint.Reset && d.Remaining > 0
}

// mayGiveBack reports whether a take that does not ask can make a cached denial wrong.
func mayGiveBack(t *stint.Take) bool {
	a := t.Limit.Algorithm()
	if a == stint.Penalty && t.Op != stint.Reset { // a counted try can only prolong a denial
		return false
	}
	return !t.Live() && a != stint.LeakyBucket && a != stint.Unlimited && !t.Limit.ForStores().Reserves() && (t.Cost > 0 || t.Op == stint.Reset)
}
