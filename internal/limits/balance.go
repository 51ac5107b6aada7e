package limits

import "stint"

// Balance is what a key has of a grant, or of its rollover in the current period.
type Balance struct{ Units, Used int64 }

// Left returns how many units can still be used.
func (b Balance) Left() int64 { return max(0, b.Units-b.Used) }

// OfGrant returns what a key has of a grant. The book may be nil.
func (b *Book) OfGrant(g *Grant) Balance {
	if b == nil {
		return Balance{Units: g.Units}
	}
	return Balance{g.Units, b.used(g.ID)}
}

// OfRollover returns what a key of a limit has at now of a rollover of most units, and until when. The book
// may be nil.
func (b *Book) OfRollover(l *stint.Limit, most int64, now stint.Instant) (of Balance, until stint.Instant) {
	if b == nil {
		b = new(Book)
	}
	c, _, _ := b.turn(l, most, now)
	return Balance{c.Units, min(c.Units, c.Used)}, c.End
}

// Join returns the sum of two books of a key of which two stores have a part. Both may be nil.
func (b *Book) Join(other *Book) *Book {
	if b == nil || other == nil {
		if b == nil {
			b = other
		}
		return b.Clone()
	}
	sum := b.Clone()
	for _, u := range other.Grants {
		sum.charge(&Grant{ID: u.ID, Until: u.Until}, u.Used)
	}
	if other.Carry.End > sum.Carry.End {
		sum.Carry, sum.Before = other.Carry, other.Before
	}
	return sum
}
