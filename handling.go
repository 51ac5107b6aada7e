package stint

import (
	"slices"
	"strings"
)

// Handling is what only the layers between the caller and a store read, and stores with several
// servers or loans. The caller owns it, like the Call. Takes with the same handling may share
// one, except if it has a Loan. A layer that keeps a take must copy it.
type Handling struct {
	// Terms are the part common to all takes of the rule; nil: the take has no rule, or its rule
	// needs no terms.
	Terms *Terms

	// Place selects the server or partition of the key in a store that has several. Keys with the
	// same place are on the same server, which decides calls about them at one moment. A key
	// always has the same place; "" means the key itself.
	Place Key

	// Loan is this node's report about the units that were lent to it, and the store's answer.
	// The store reads it before it decides, and lends units after that. Nil: none. Stores that
	// cannot lend ignore it.
	Loan *Loan

	// OnFailure is what to do if the store cannot decide, and Local the limit in this process if
	// OnFailure is Local. A guard around the store applies them, see package guard. For sources,
	// those of the take that borrows apply.
	OnFailure Failure
	Local     *Limit

	// Meter names the key in the history of its use and in events, see Terms.Usage and Terms.Notify.
	// Nil: the take belongs to no history. The type has no name, as hardly anybody needs it: package
	// internal/transaction has one, and describes grants.
	Meter *struct {
		Subject, Plan string // KEY=VALUE of the rule's last entry, and its plan; "" for none
		Limit         string // name of the limit, if the rule has several
		Of, Rollover  int64  // units of which thresholds are percentages; the most that a period leaves to the next, 0 for none
		Grants        []struct {
			ID          string // of the grant among those of the key
			Units       int64
			Priority    uint8   // the lower are used first; the limit itself has 100
			From, Until Instant // used at From <= now < Until
		}
	}

	// Live is set if the use of the key also changes by other things than its takes, such as
	// responses or a gauge. A denial is then valid only at this moment and must not be cached.
	Live bool

	// Candidate marks an Independent take that tries other numbers of a limit, and whose answer
	// nobody acts on: no layer lets another take wait or fail for it. If the store cannot decide
	// it, it is answered as allowed and Degraded.
	Candidate bool

	// InsteadOf, if not 0, is one more than the index in the call of the take for which a Candidate
	// stands, which is not Independent. The candidate is charged if it may pass and no other take
	// that is decided as one with that take denies; takes of the same key do not count as others. So
	// it is charged as if its limit had replaced the other one. If another take denies, the candidate
	// is answered like a peek, and Allowed reports whether its units remain.
	InsteadOf uint32
}

// Terms are the part common to all takes of a rule, for the layers between the caller and the
// store. They are immutable; takes of one rule share a pointer.
type Terms struct {
	// Domain and Rule are the names of the rule. They identify it across its versions.
	Domain, Rule string

	// Candidate is set if the terms are those of a candidate (see [Handling]), which figures of
	// rules do not show.
	Candidate bool

	// Limit is the limit of the takes, except those of keys with an override of its numbers.
	Limit *Limit

	// Own and Rest divide the limit: Own is the share of each process, and Rest what the store
	// has. See packages internal/limits and fleet/quota. Nil: the limit is not divided.
	Own, Rest *Limit

	// Coordination is how the nodes agree on a key. KeptAfterLoss means that a Leased key starts
	// unused after the store lost its data, not used up.
	Coordination  Coordination
	KeptAfterLoss bool

	// AskPeers means that a node asks all others for their counts before it decides a Gossip
	// take. Durable means that a Strict take must be on disk before it is answered, as far as the store
	// can do that, and follows OnFailure after the store lost counts; see the store.
	AskPeers, Durable bool

	// Usage is of how many periods before the current one the store keeps the use of a key. Notify are
	// the percentages of the limit, 1 to 100 and ascending, at which it writes an event into its outbox.
	// Both work only for a Strict fixed_window whose takes have a Handling.Meter.
	Usage  int
	Notify []uint8

	// Keys is the largest number of keys of the rule on a node that decides alone (see Eventual);
	// 0: as many as memory allows.
	Keys int
}

// Clone returns a copy that may be kept after the call. It has its own key, place and Handling, with
// its own grants, and no Loan.
func (t *Take) Clone() Take {
	own := *t
	own.Key = Key(strings.Clone(string(t.Key)))
	if t.Handling != nil {
		how := *t.Handling
		how.Place, how.Loan = Key(strings.Clone(string(how.Place))), nil
		if how.Meter != nil {
			meter := *how.Meter
			meter.Grants = slices.Clone(meter.Grants) // the caller's slice may be that of another take soon
			how.Meter = &meter
		}
		own.Handling = &how
	}
	return own
}

// noHandling is the handling of a take without one. Nothing writes to it.
var noHandling Handling

// handling returns the handling of the take, for reading.
func (t *Take) handling() *Handling {
	if t.Handling == nil {
		return &noHandling
	}
	return t.Handling
}

// Terms returns the terms of the take's rule, nil for none.
func (t *Take) Terms() *Terms { return t.handling().Terms }

// Coordination returns the coordination of the take, by default Strict.
func (t *Take) Coordination() Coordination {
	if terms := t.Terms(); terms != nil {
		return terms.Coordination
	}
	return Strict
}

// Place returns the place of the key, by default the key itself.
func (t *Take) Place() Key {
	if t.Handling == nil || t.Handling.Place == "" {
		return t.Key
	}
	return t.Handling.Place
}

// Loan returns the take's Handling.Loan, nil for none.
func (t *Take) Loan() *Loan { return t.handling().Loan }

// OnFailure returns the failure policy of the take, and the limit for Local.
func (t *Take) OnFailure() (Failure, *Limit) {
	return t.handling().OnFailure, t.handling().Local
}

// Charged returns how many units the take was charged, by the decision that allowed it.
func (t *Take) Charged(d *Decision) uint32 {
	if t.Op == AskAtMost {
		return d.Charged
	}
	return t.Cost
}

// Metered reports whether the store keeps a history of the key's use, or writes events about it.
func (t *Take) Metered() bool { return t.Handling != nil && t.Handling.Meter != nil }

// Live returns the take's Handling.Live.
func (t *Take) Live() bool { return t.Handling != nil && t.Handling.Live }

// Candidate returns the take's Handling.Candidate.
func (t *Take) Candidate() bool { return t.Handling != nil && t.Handling.Candidate }

// InsteadOf returns the take's Handling.InsteadOf.
func (t *Take) InsteadOf() uint32 { return t.handling().InsteadOf }
