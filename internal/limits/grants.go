package limits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"stint"
)

// OwnPriority is the priority of a limit's own units among grants. GrantPriority is that of a grant
// whose owner sets none.
const (
	OwnPriority   = 100
	GrantPriority = 200
)

// MaxGrants is the largest number of grants of a take.
const MaxGrants = 32

// MaxUnits is the largest number of units of a grant, and of a rollover: scripts in Redis add up those of
// all grants exactly.
const MaxUnits = 1 << 46

// Grant is a package of units that a subject has beside its limit. Units of it count only at
// From <= now < Until. It is the element of Meter.Grants, which takes of one key share and nobody
// changes.
//
// A take brings the grants of its subject in the order of their use: by priority, and among equals
// the one that ends first, see SortGrants. It is charged first to the rollover, then to grants whose
// Priority is less than OwnPriority, then to the limit itself, then to the other grants. It may use
// several of them, and passes if they all together have as many units. What a grant has left are its
// Units less what was charged to its ID and not given back. The store keeps these numbers beside the
// state of the key for a year after the grant ended and the key was charged last, also while no take names
// it; but of grants that have ended only those of the last 32. Two grants of a key never have the same ID,
// and an ID is never used again for another grant. If Units or Until change, the store uses the new ones
// with the next take; what was charged stays, also when the grant had ended.
//
// # Rollover
//
// Meter.Rollover is the most units that a period of the key leaves to the next; 0: nothing. What it
// leaves is what was left of the limit itself and of the period's own rollover, see Carry.
//
// # Use and thresholds
//
// The use of a period (see UseChange) has all units, wherever they came from. A threshold is a percentage of
// Meter.Of, and is reached by what counts against the limit itself: neither grants nor a rollover move it. A
// refund lowers the use only of a period that runs.
//
// # Limits
//
// Grants and rollovers need a Strict fixed_window whose windows begin at multiples of their length or
// with the calendar, and that does neither overdraw, carry debts nor borrow. An unlimited limit ignores them. All
// else is ErrGrants, as are an empty ID, the same ID twice, more than MaxGrants grants, and more than
// MaxUnits units.
type Grant = struct {
	ID          string
	Units       int64
	Priority    uint8
	From, Until stint.Instant
}

// SortGrants sorts grants in the order of their use.
func SortGrants(grants []Grant) {
	slices.SortStableFunc(grants, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Until, b.Until), cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID))
	})
}

// Granted reports whether a take has grants or a rollover, or gives back units of some.
func Granted(t *stint.Take) bool {
	return t.Metered() && t.Limit.Algorithm() != stint.Unlimited && HasGrants(t.Handling.Meter, t.Undo)
}

// HasGrants is Granted for a take with a meter, which undoes a decision, nil for none.
func HasGrants(m *Meter, undo *stint.Decision) bool {
	return m.Rollover > 0 || len(m.Grants) > 0 || undo != nil && undo.Spent != ""
}

// ErrGrants means that a take has grants or a rollover that no store can use.
var ErrGrants = errors.New("grants and rollover need a strict fixed_window with windows at fixed times, without overdraw and elastic")

// CheckGrants returns ErrGrants if a take of the call has grants that no store can use. Stores call it
// after Call.Check.
func CheckGrants(c *stint.Call) error {
	last := -1 // the last source of a take before
	for i := range c.Takes {
		t := &c.Takes[i]
		source := i <= last
		if !source {
			last = i + int(t.Borrows)
		}
		if Granted(t) && (source || t.Borrows > 0 || !usableGrants(t)) {
			return fmt.Errorf("take %d: %w", i, ErrGrants)
		}
	}
	return nil
}

// RefuseGrants returns ErrGrants if any take of the call has grants. Stores that keep no histories call it.
func RefuseGrants(c *stint.Call) error {
	for i := range c.Takes {
		if Granted(&c.Takes[i]) {
			return fmt.Errorf("take %d: this store keeps no grants: %w", i, ErrGrants)
		}
	}
	return nil
}

// usableGrants reports whether a store can use the grants of a take.
func usableGrants(t *stint.Take) bool {
	m, spec := t.Handling.Meter, t.Limit.Spec()
	if spec.Algorithm != stint.FixedWindow || spec.FromFirst || spec.Overdraw || spec.CarryDebt || t.Coordination() != stint.Strict {
		return false
	}
	if m.Rollover < 0 || m.Rollover > MaxUnits || len(m.Grants) > MaxGrants {
		return false
	}
	for i, g := range m.Grants {
		again := func(o Grant) bool { return o.ID == g.ID }
		if g.ID == "" || g.Units < 0 || g.Units > MaxUnits || slices.ContainsFunc(m.Grants[:i], again) {
			return false
		}
	}
	return true
}
