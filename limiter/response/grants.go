package response

import (
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// Grant is a grant of a key with what is left of it.
type Grant struct {
	ID       string    `json:"id"`
	Units    int64     `json:"units"`
	Used     int64     `json:"used"`
	Left     int64     `json:"left"`
	Priority uint8     `json:"priority"`
	From     time.Time `json:"from,omitzero"` // it has not begun yet; zero: it has
	Until    time.Time `json:"until"`
}

// Rollover is what a key has from the period before.
type Rollover struct {
	Units int64     `json:"units"`
	Used  int64     `json:"used"`
	Left  int64     `json:"left"`
	Until time.Time `json:"until"`
}

// GrantsOf returns what a key has of grants at a time.
func GrantsOf(grants []transaction.Grant, book *transaction.Book, now stint.Instant) []Grant {
	all := make([]Grant, len(grants))
	for i := range grants {
		g := &grants[i]
		of := book.OfGrant(g)
		all[i] = Grant{ID: g.ID, Units: of.Units, Used: of.Used, Left: of.Left(), Priority: g.Priority, Until: g.Until.Time()}
		if g.From > now {
			all[i].From = g.From.Time()
		}
	}
	return all
}

// RolloverOf returns what a key of a limit has at a time of a rollover of at most so many units; nil if the limit
// has none.
func RolloverOf(l *stint.Limit, most int64, book *transaction.Book, now stint.Instant) *Rollover {
	if most == 0 {
		return nil
	}
	of, until := book.OfRollover(l, most, now)
	return &Rollover{of.Units, of.Used, of.Left(), until.Time()}
}

// Balances are what a key has beside its limit.
type Balances struct {
	Grants   []Grant   `json:"grants,omitempty"`
	Rollover *Rollover `json:"rollover,omitempty"`
}

// BalancesOf returns the grants and the rollover that a take brings.
func BalancesOf(t *stint.Take, book *transaction.Book, now stint.Instant) Balances {
	m := t.Handling.Meter
	return Balances{GrantsOf(m.Grants, book, now), RolloverOf(t.Limit, m.Rollover, book, now)}
}

// HasBalances reports whether a take brings grants or a rollover.
func HasBalances(t *stint.Take) bool {
	return t != nil && t.Metered() && limits.HasGrants(t.Handling.Meter, nil)
}
