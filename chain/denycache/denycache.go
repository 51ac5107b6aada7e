// Package denycache answers takes that a store on the network has refused from this
// process's memory until they may be tried again.
package denycache

import (
	"context"
	"sync/atomic"
	"time"

	"stint"
)

// What Options mean where they say nothing.
const (
	DefaultBytes  = 16 << 20
	DefaultMaxAge = time.Second
)

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Notices is how the processes that share the store tell each other that a key was
	// given something back. Nil: this process is the only one, and nothing else changes
	// keys.
	Notices Notices

	// Bytes is the most memory for what is remembered; 0 means DefaultBytes, about
	// 40,000 keys of ordinary length. When it is full others are forgotten, and asked
	// for once more.
	Bytes int64

	// MaxAge is the longest that an answer is used, whatever its retry time; 0 means
	// DefaultMaxAge. So soon a key is free again that somebody deletes in the store by hand. A
	// shorter one asks more often: each process asks once in MaxAge, less a tenth, about a key
	// that is denied all the time.
	MaxAge time.Duration

	// Divided says that the store decides a call of several keys in several steps and
	// may take for a moment what it then gives back, as a Cluster does. Others are told
	// of such keys.
	Divided bool

	// Clock is this process's clock; nil is the machine's.
	Clock func() time.Time

	// OnChange is told whenever the notices of others begin to arrive, or cease to: then
	// with the reason. It is called from Run, one at a time. Nil: nobody is.
	OnChange func(up bool, reason error)
}

// Store is a stint.Store around one that many processes share. A take that was refused
// is refused again from memory until its RetryAfter is over, so a client that does not
// wait costs the store one call for each time it may try, and one in Options.MaxAge. Make one
// with New and keep Run running; the zero Store is not usable. It is safe for concurrent use.
//
// # What is answered from memory
//
// A refusal holds until its RetryAfter is over, but for Options.MaxAge at most, counted from
// before it was asked for, by a clock that nobody sets (and by the other, where a machine slept):
// whoever takes meanwhile can only prolong it. In the last tenth of MaxAge one caller asks the
// store again. The others get the remembered answer until it is MaxAge old, and then wait for
// the new one. It answers the same key under a limit of the same numbers
// and for the same cost. A larger cost is answered where its own RetryAfter is known: by
// a steady token_bucket, by a fixed_window, and where it is more than the limit holds. A
// smaller one asks the store.
//
// RetryAfter and ResetAfter are what is left of them, and Remaining is that of the last
// answer. Where other processes have let smaller takes pass meanwhile, that is what it
// was then. A steady token_bucket is counted on. While the numbers of a limit change, a key
// may be denied for longer than by the store alone, as that does not hear of every try; it is
// never allowed sooner.
//
// Of a call of several takes the refused ones are answered like this, the others by the
// last answer of the store to this process, if that leaves no doubt that they fit. A take
// that is Independent would be charged where it passes, so only its refusal is answered.
//
// # What is not
//
// Calls with Handling.Live, Terms.Coordination, Take.Borrows, Call.At or any operation but Ask; limits that a
// refused take changes or that more than time moves: overdraw, count_denied, start: used_up,
// count: responses (Spec.Hold), and leaky_bucket. All of these ask the store.
//
// A guard (see package guard) belongs inside: what is remembered needs no store and must
// not look like an answer of one that is away. Its own answers are not remembered.
//
// # When it is forgotten
//
// Whatever gives a key something back through any process (a refund, a reset, a forced
// take, other numbers of its limit, Forget) is told to all others by Options.Notices, and
// is forgotten everywhere at once, at the latest a second later: each process sends itself a
// beat four times a second, and one whose last beat is older than that does not use its
// memory, nor forgets it. One whose channel was lost forgets all. An answer that was under
// way when a notice came is not remembered. In a Cluster whose nodes have lost each other
// notices can be lost while beats arrive: then it takes until MaxAge.
//
// Whoever deletes a key in the store by hand, or empties it, tells nobody: what was remembered
// of it is used until MaxAge.
//
// # When the retry time is over
//
// All who waited for a key come at once. One of them asks the store, and the others wait
// for its answer; where that leaves room, so many of them ask next. So one is refused by the
// store itself, if nobody takes beside them.
type Store struct {
	inner    stint.Store
	notices  Notices
	maxAge   time.Duration
	divided  bool
	clock    func() time.Time
	onChange func(up bool, reason error)

	born     time.Time
	budget   int64 // of a shard
	shards   [shardCount]shard
	records  atomic.Int64
	answered atomic.Uint64
	dropped  atomic.Uint64
	lost     atomic.Uint64

	channel channel
}

var _ stint.Store = (*Store)(nil)

// New returns a store that asks inner and remembers what that refuses.
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
	s.born = s.clock()
	for i := range s.shards {
		s.shards[i].known = make(map[uint64]*record)
	}
	s.channel.init()
	return s
}

// Stats are the numbers of a Store.
type Stats struct {
	Answered uint64 // calls that were answered from memory
	Keys     int64  // that something is remembered of
	Bytes    int64  // that they take
	Dropped  uint64 // keys that were forgotten before their time, by a notice or to make room
	Lost     uint64 // times that the notices of others ceased to arrive
	Up       bool   // they arrive
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

// Forget forgets everything, here and in all processes: for a change of limits.
func (s *Store) Forget() {
	s.Drop()
	s.tell(everything)
}

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if !rememberable(call) {
		defer s.changed(call)
		return s.inner.Decide(ctx, call)
	}
	var a ask
	if known, err := s.recall(ctx, call, &a); known || err != nil {
		return err
	}
	answered := false
	defer func() { s.learn(call, &a, answered) }() // be it a panic that comes of it
	err := s.inner.Decide(ctx, call)
	answered = err == nil && !degraded(call.Results)
	return err
}

// maxTakes is how many takes a call may have that is answered from memory.
const maxTakes = 16

// rememberable says whether the answer to a call can be remembered.
func rememberable(call *stint.Call) bool {
	if call.At != 0 || len(call.Takes) == 0 || len(call.Takes) > maxTakes {
		return false
	}
	asks := false
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Op != stint.Ask || t.Borrows > 0 || t.Live() || t.Coordination() != stint.Strict || t.Limit == nil || t.Key == "" || !lasting(t.Limit) {
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

// lasting says whether a refusal under the limit changes nothing and lasts until its
// time whatever happens but what is given back.
func lasting(limit *stint.Limit) bool {
	if a := limit.Algorithm(); a == stint.LeakyBucket || a == stint.Unlimited {
		return false
	}
	spec := limit.Spec()
	return !spec.Reserve && !spec.Overdraw && !spec.CountDenied && !spec.StartUsedUp && !spec.CarryDebt
}

// changed forgets the keys of a call that the store decided, or may have, and tells the
// others of those that it may have given something back to.
func (s *Store) changed(call *stint.Call) {
	held := s.records.Load() > 0
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Limit == nil {
			continue
		}
		h := hashOf(t.Key, t.Limit.Algorithm())
		switch {
		case t.Op != stint.Ask && gives(t):
			s.forget(h)
			s.tell(h)
		case held:
			s.outdate(h)
		}
	}
}

// gives says whether a take that is no question can change what somebody remembers.
func gives(t *stint.Take) bool {
	a := t.Limit.Algorithm()
	return !t.Live() && a != stint.LeakyBucket && a != stint.Unlimited && !t.Limit.ForStores().Reserves() && (t.Cost > 0 || t.Op == stint.Reset)
}
