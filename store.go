package stint

import (
	"context"
	"errors"
	"math"
)

// Key identifies the bucket of a take: the identity of the rule and the values that matched it, for
// example "api/user=42".
//
// A store keeps one state for each pair of key and algorithm: the same text under another algorithm
// is another bucket. Keys are bytes; they need not be UTF-8.
type Key string

// MaxCost is the largest cost of one take. Larger numbers are refused where they
// come in, before any state is touched.
const MaxCost = math.MaxUint32

// Op is what a take does to its key.
type Op uint8

const (
	// Ask asks for Cost units and takes them if the whole call may pass. A Cost of 0
	// is a peek: always allowed, changes nothing.
	Ask Op = iota

	// Force debits Cost units without asking. The key may go into debt: Remaining
	// is 0 and RetryAfter counts the debt until it is worked off. Always allowed.
	Force

	// Refund gives back Cost units. With Undo it undoes exactly that earlier take. That gives
	// nothing back if its window or block has ended, or if others queued behind its place in a
	// leaky bucket. Without Undo it lowers the units used now, never below zero. It is always
	// allowed.
	Refund

	// Reset forgets the key. Always allowed; Cost is ignored.
	Reset

	// Settle ends the reservation of Cost units by the take that Undo answered: they
	// stay charged. It changes nothing where the limit does not hold (see
	// Spec.Reserve) or the reservation is over. For a penalty it is a late Force: it
	// counts Cost denied tries, unless the key was reset meanwhile. Always allowed.
	Settle

	// AskAtMost asks for the largest number of units from 1 to Cost that passes, which
	// Decision.Charged returns. It is denied, as a take of 1, if less than 1 unit is there. All
	// such takes of a call that are not Independent are charged one number, the smallest that any
	// of them could take. Such a take does not borrow, and its key appears once in what is
	// decided together. To undo it, refund the units that were charged. A Cost of 0 is a peek.
	AskAtMost
)

// Asks reports whether a take of this operation may be denied: whether it is Ask or AskAtMost.
func (o Op) Asks() bool { return o == Ask || o == AskAtMost }

// Take is one (key, limit, cost) put to a store.
type Take struct {
	Key   Key
	Limit *Limit
	Cost  uint32
	Op    Op

	// Independent takes the limit out of the call's all-or-none: it is decided by itself,
	// charged if it alone may pass, and denies nobody else. Limits in shadow mode
	// are asked like this.
	Independent bool

	// Undo is the decision that a Refund undoes or a Settle settles; a Refund without
	// one gives back at the present time.
	Undo *Decision

	// Borrows makes the next Borrows takes of the call its sources, such as a pool and a cap. If
	// this take fits its own limit it is charged there. Its sources are then debited too, without a
	// check, into a debt of at most their limit (see [StoreLimit.DebitCapped]). If it does not fit,
	// its own key is not charged, and it passes if all its sources have room; they are then
	// charged, and its decision is Over. If they have no room either, it is denied, with the sooner
	// RetryAfter of the two ways.
	//
	// A source denies nobody by itself, and neither borrows nor changes (Op is Ask, Borrows is 0);
	// it is Independent if this take is. Its result is its own. It is Over if its debt was too
	// large to debit it in full: then a refund gives nothing back.
	Borrows uint8

	// Handling is what only the layers between the caller and a store look at, and stores that
	// have several servers or lend. Nil: a strict take of no rule, at the place of its key, that
	// passes while the store is away.
	Handling *Handling
}

// Call is a set of takes that are decided as one: all takes that are not Independent pass, or none
// is charged. The caller owns it and may use it again once Decide has returned, so a hot path
// allocates nothing.
type Call struct {
	// At fixes the time of the decision. Zero, which is what a server wants, is the
	// store's own clock. Replays and tests set it.
	At Instant

	// Takes are the questions. The same key may stand in several takes of one call
	// if they carry the same limit; their costs are summed.
	Takes []Take

	// Results are the decisions, one for each take in the same order. The store sets the length and
	// reuses the memory. They have no meaning after an error other than a *CorruptState.
	//
	// If the call is denied, the takes that would have passed show their unchanged state, allowed.
	Results []Decision
}

// Store keeps the states of keys and decides calls. It is safe for concurrent use.
//
// A store decides every take of a call or returns an error, which always means "could not decide",
// never "denied". After an error nothing was charged, except after [ErrUnknown], which means that
// this is unknown. Decide may block until ctx is done, or until a store that groups calls has sent
// the group; an in-process store never blocks. Decide must not keep the Call, its slices or the
// bytes of its keys after it returned.
type Store interface {
	Decide(ctx context.Context, call *Call) error
}

// Errors that stores return, wrapped with what was being done.
var (
	// ErrNoStore means that the store is the zero value of its type.
	ErrNoStore error = &wrongCall{"store that was not made by New"}

	// ErrNoLimit means that a take has no limit, or the zero Limit, which NewLimit did not make.
	ErrNoLimit error = &wrongCall{"take without a limit"}

	// ErrNoKey means that a take has an empty key, which would put unrelated clients into one
	// bucket.
	ErrNoKey error = &wrongCall{"take without a key"}

	// ErrMixedLimits means that one key appears twice in a call under the same algorithm with
	// different numbers, or is both asked and changed, or both borrows and does not, or one of the
	// takes is an AskAtMost.
	ErrMixedLimits error = &wrongCall{"same key twice in one call with different limits or operations"}

	// ErrSource means that a take borrows from missing sources or from a penalty, or does more than
	// ask.
	ErrSource error = &wrongCall{"take borrows from takes that cannot be its sources"}

	// ErrAtMost means that an AskAtMost has a limit that overdraws, which debits the whole cost
	// whatever is there, or a penalty, which has no units.
	ErrAtMost error = &wrongCall{"take of at most its cost from a limit that overdraws, or from a penalty"}

	// ErrNoUndo means that a Settle lacks the decision that it settles.
	ErrNoUndo error = &wrongCall{"settle without the decision that is settled"}

	// ErrTime means that the time of a call is before 1970 or after MaxInstant.
	ErrTime error = &wrongCall{"time of the call out of range"}

	// ErrUnknown means that a call may or may not have been charged, because its answer was lost.
	// It is never retried.
	ErrUnknown = errors.New("unknown whether the call was charged")
)

// Check returns the first reason why no store can decide the call, or nil. Stores
// call it first.
func (c *Call) Check() error {
	if c.At < 0 || c.At > MaxInstant {
		return ErrTime
	}
	for i := range c.Takes {
		t := &c.Takes[i]
		if err := t.Limit.Check(); err != nil {
			return err
		}
		if t.Key == "" {
			return ErrNoKey
		}
		if t.Op == Settle && t.Undo == nil {
			return ErrNoUndo
		}
		if t.Op == AskAtMost && (t.Limit.spec.Overdraw || t.Limit.spec.Algorithm == Penalty) {
			return ErrAtMost
		}
		if t.Borrows > 0 && !c.hasSources(i) {
			return ErrSource
		}
	}
	return nil
}

// SizeResults makes Results as long as Takes, and reuses its memory. Elements keep old values until
// the store sets them. Stores call it before they decide.
func (c *Call) SizeResults() {
	if cap(c.Results) < len(c.Takes) {
		c.Results = make([]Decision, len(c.Takes))
	}
	c.Results = c.Results[:len(c.Takes)]
}

// hasSources reports whether what take number i borrows from is there and can be borrowed from.
func (c *Call) hasSources(i int) bool {
	t := &c.Takes[i]
	if t.Op != Ask || t.Limit.spec.Algorithm == Penalty || i+int(t.Borrows) >= len(c.Takes) {
		return false
	}
	for _, source := range c.Takes[i+1 : i+1+int(t.Borrows)] {
		if source.Op != Ask || source.Borrows > 0 || source.Independent != t.Independent || source.Limit != nil && source.Limit.spec.Algorithm == Penalty {
			return false
		}
	}
	return true
}
