package limits

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"stint"
)

// MaxIdle is how many periods a carry outlives the one in which the key was charged last.
const MaxIdle = 12

// keptUse is how long the use of grants is kept after their end and after the last charge of the key, and
// maxEnded of how many that have ended: of those that ended last. A clock that ran ahead, or an end that
// moves after it has passed, gives no units again.
const (
	keptUse  = stint.Instant(stint.MaxPer / time.Microsecond)
	maxEnded = 32
)

// Book is what a key has used of its grants, and what it carries from one period to the next. It
// stands beside the state of the key, and a store writes both in one step. The zero Book is that of a
// key that used no grants. It belongs to one goroutine at a time.
type Book struct {
	Carry  Carry
	Before Carry // of the last period before that of Carry in which the key was charged; zero: unknown
	Grants []GrantUse
}

// GrantUse is how many units of a grant are used. It outlives the grant, which ends at Until, see keptUse.
type GrantUse struct {
	ID    string
	Used  int64
	Until stint.Instant
}

// Carry is the rollover of a key: Units were carried into the period from Start to End, and Used of
// them are used there. Own units counted against the limit itself after the last charge of the period,
// by a limit of Of units. The zero Carry is that of a key that was never charged: it carries nothing.
//
// A period ends when a window of the limit begins at its End or later. If that is the kth window since
// the End (the one right after it is the first), so that k - 1 whole periods had no charge, the new
// period begins with
//
//	min(rollover, max(0, Units - Used + k*Of - Own))        0 if k > MaxIdle
//
// units. So a period leaves what was left of its own carry and of the limit, a period without charge
// leaves all that it had, and the rollover caps the sum. Units above the limit, such as forced ones,
// leave less. A period lasts until its End, also if windows are shorter by then because the numbers
// changed. If a take is charged in a window that begins at the End or later, but not carried there, the
// carry is gone: a take without a rollover, or one in a window that the clock went back from.
//
// A carry whose period began more than 5 seconds after now, or more than a period, is from a clock that
// ran ahead. Until the key is charged again Book.Before counts instead of it, with what was used of both:
// the carry is what it would be if the charges of that clock had been made now.
type Carry struct {
	Start, End stint.Instant
	Units      int64
	Used       int64
	Own, Of    int64
}

// skew is by how much clocks may differ: by as much a carry may begin later than now. It is that of states,
// see above.go in the root package.
const skew = stint.Instant(5e6)

// counts returns the time from which the carry does not count as from a clock that ran ahead.
func (c *Carry) counts() stint.Instant { return c.Start - min(skew, c.End-c.Start) }

// ahead reports whether a clock that ran ahead of now began the period of the carry.
func (c *Carry) ahead(now stint.Instant) bool { return now < c.counts() }

// add adds what was charged in the period of a carry from a clock that ran ahead. If own units were
// charged there, these are all that the state has: those before count as used of the carry.
func (c *Carry) add(ahead *Carry) {
	c.Used += ahead.Used
	if ahead.Own > 0 {
		c.Used, c.Own = c.Used+c.Own, ahead.Own
	}
	c.Used, c.Of = min(c.Used, 2*MaxUnits), ahead.Of
}

// turn returns the carry as it is at now, of a limit with a rollover of most units. last is the carry that was
// charged last by now, and before the one that stands before the carry when that is charged.
func (b *Book) turn(l *stint.Limit, most int64, now stint.Instant) (c, last, before Carry) {
	if most == 0 {
		return c, last, before
	}
	switch {
	case !b.Carry.ahead(now):
		last, before = b.Carry, b.Before
	case b.Before.ahead(now):
		last = new(Carry).at(l, most, now)
		last.add(&b.Before)
		last.add(&b.Carry)
	default:
		last = b.Before.at(l, most, now)
		last.add(&b.Carry)
	}
	if c = last.at(l, most, now); c.End != last.End {
		before = last
	}
	return c, last, before
}

// left returns how many units of the carry are left in its period.
func (c *Carry) left() int64 { return max(0, c.Units-c.Used) }

// after returns how many units the kth period after this one has.
func (c *Carry) after(k, most int64) int64 {
	if k > MaxIdle {
		return 0
	}
	return min(most, max(0, c.Units-c.Used+k*c.Of-c.Own))
}

// windowAt returns the window of an untouched key that contains a time.
func windowAt(l *stint.Limit, at stint.Instant) (start, end stint.Instant) {
	return l.ForStores().Window(new(stint.State), at)
}

// next returns the start and end of the first window that begins at the End or later.
func (c *Carry) next(l *stint.Limit) (start, end stint.Instant) {
	start, end = windowAt(l, c.End)
	if start < c.End {
		return windowAt(l, end)
	}
	return start, end
}

// at returns the carry as it is at now, of a limit with a rollover of most units.
func (c *Carry) at(l *stint.Limit, most int64, now stint.Instant) Carry {
	if c.End != 0 && now < c.End {
		return *c
	}
	start, end := windowAt(l, now)
	turned := Carry{Start: start, End: end}
	switch {
	case c.End == 0:
		return turned
	case start < c.End:
		return *c
	}
	k := int64(1)
	for first, end := c.next(l); first < start && k <= MaxIdle; k++ {
		first, end = windowAt(l, end)
	}
	turned.Units = c.after(k, most)
	return turned
}

// Forget drops the carry if its period has ended when a window begins in which a take was charged.
func (b *Book) Forget(start stint.Instant) {
	if start >= b.Carry.End {
		b.Carry, b.Before = Carry{}, Carry{}
	}
}

// giveBack gives units back to the carry of a period that has not ended at now. It returns how many.
func (c *Carry) giveBack(end stint.Instant, units int64, now stint.Instant) int64 {
	if c.End != end || now >= end {
		return 0
	}
	units = min(units, c.Used)
	c.Used -= units
	return units
}

// expiry returns the time from which the carry leaves nothing.
func (c *Carry) expiry(l *stint.Limit) stint.Instant {
	if c.End == 0 {
		return 0
	}
	return min(c.End+(MaxIdle+1)*LongestWindow(l, c.Start, c.End), stint.MaxInstant)
}

// of returns the use of a grant; nil if nothing is used.
func (b *Book) of(id string) *GrantUse {
	for i := range b.Grants {
		if b.Grants[i].ID == id {
			return &b.Grants[i]
		}
	}
	return nil
}

// used returns how many units of a grant are used.
func (b *Book) used(id string) int64 {
	if u := b.of(id); u != nil {
		return u.Used
	}
	return 0
}

// charge adds units to what is used of a grant.
func (b *Book) charge(g *Grant, units int64) {
	if u := b.of(g.ID); u != nil {
		u.Used, u.Until = u.Used+units, g.Until
		return
	}
	b.Grants = append(b.Grants, GrantUse{g.ID, units, g.Until})
}

// extend takes over later ends of grants, also of those that are used up and so are charged no more.
func (b *Book) extend(grants []Grant) {
	for i := range grants {
		if u := b.of(grants[i].ID); u != nil {
			u.Until = max(u.Until, grants[i].Until)
		}
	}
}

// giveBack gives units back to a grant that has not ended at now. It returns how many.
func (b *Book) giveBack(id string, units int64, now stint.Instant) int64 {
	u := b.of(id)
	if u == nil || u.Until <= now {
		return 0
	}
	units = min(units, u.Used)
	if u.Used -= units; u.Used == 0 {
		b.Grants = slices.DeleteFunc(b.Grants, func(o GrantUse) bool { return o.ID == id })
	}
	return units
}

// tidy drops those that ended first of more than maxEnded grants that have ended at now.
func (b *Book) tidy(now stint.Instant) {
	ended := 0
	for i := range b.Grants {
		if b.Grants[i].Until <= now {
			ended++
		}
	}
	for ; ended > maxEnded; ended-- {
		first := 0
		for i := range b.Grants {
			if b.Grants[i].Until < b.Grants[first].Until {
				first = i
			}
		}
		b.Grants = slices.Delete(b.Grants, first, first+1)
	}
}

// For returns the book for deciding a take, a new one for nil; nil for a take without grants.
func (b *Book) For(t *stint.Take) *Book {
	switch {
	case !Granted(t):
		return nil
	case b == nil:
		return new(Book)
	}
	return b
}

// Empty reports whether the book is that of a key that used no grants.
func (b *Book) Empty() bool { return b.Carry.End == 0 && len(b.Grants) == 0 }

// Expiry returns the time from which a book that was written at now is not kept; 0 for nil and an empty one.
func (b *Book) Expiry(l *stint.Limit, now stint.Instant) stint.Instant {
	if b == nil {
		return 0
	}
	last := b.Carry.expiry(l)
	for i := range b.Grants {
		last = max(last, min(max(b.Grants[i].Until, now)+keptUse, stint.MaxInstant))
	}
	return last
}

// Clone returns a copy that shares no memory with the book; nil for nil.
func (b *Book) Clone() *Book {
	if b == nil {
		return nil
	}
	return &Book{b.Carry, b.Before, slices.Clone(b.Grants)}
}

// Size returns about how many bytes the book needs; 0 for nil.
func (b *Book) Size() (n int) {
	if b == nil {
		return 0
	}
	for i := range b.Grants {
		n += len(b.Grants[i].ID)
	}
	return n + 128 + 32*cap(b.Grants)
}

// Decision.Spent has one entry for each source that a take was charged to, in the order of their use.
// An entry is a number and what follows it, all numbers as uvarints: 0 and units of the limit itself; 1,
// the end of the period, and units of its carry; or a grant: 2 and the length of its ID, the ID, and
// units. A text after another is that of both takes.
const (
	SpentOwn = iota
	SpentCarry
	SpentGrant // and longer IDs
)

// Source is an entry of Decision.Spent.
type Source struct {
	Kind  uint64        // SpentOwn, SpentCarry or SpentGrant
	ID    string        // of the grant
	End   stint.Instant // of the carry's period
	Units int64
}

// Name returns the end of the carry's period, or the ID of the grant.
func (s *Source) Name() string {
	if s.Kind == SpentCarry {
		return strconv.FormatInt(int64(s.End), 10)
	}
	return s.ID
}

// append appends the entry, unless it has no units.
func (s *Source) append(b []byte) []byte {
	if s.Units == 0 {
		return b
	}
	b = binary.AppendUvarint(b, s.Kind+uint64(len(s.ID)))
	switch s.Kind {
	case SpentCarry:
		b = binary.AppendUvarint(b, uint64(s.End))
	case SpentGrant:
		b = append(b, s.ID...)
	}
	return binary.AppendUvarint(b, uint64(s.Units))
}

// readSpent returns the entries of a Decision.Spent; nil if it is not one.
func readSpent(text string) (all []Source) {
	const most = 1<<53 - 1 // of a time, and of units
	left := []byte(text)
	number := func() (n uint64) {
		n, size := binary.Uvarint(left)
		if size <= 0 || n > most {
			left, size, n = nil, 0, most+1
		}
		left = left[size:]
		return n
	}
	for len(left) > 0 {
		var s Source
		switch n := number(); n {
		case SpentOwn:
		case SpentCarry:
			s.Kind, s.End = SpentCarry, stint.Instant(number())
		default:
			s.Kind, n = SpentGrant, n-SpentGrant
			if n > uint64(len(left)) {
				return nil
			}
			s.ID, left = string(left[:n]), left[n:]
		}
		if s.Units = int64(number()); s.Units > most {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// SpentPart returns the part of a Decision.Spent with n units after the first skip ones.
func SpentPart(text string, skip, n uint64) string {
	var part []byte
	for _, s := range readSpent(text) {
		before := min(skip, uint64(s.Units))
		skip -= before
		s.Units = int64(min(n, uint64(s.Units)-before))
		n -= uint64(s.Units)
		part = s.append(part)
	}
	return string(part)
}

// SpentLast returns the entries of a Decision.Spent with its last n units, the last one first. What the
// text does not have are units of the limit itself.
func SpentLast(text string, n uint64) (last []Source) {
	for _, s := range slices.Backward(readSpent(text)) {
		s.Units = int64(min(n, uint64(s.Units)))
		n -= uint64(s.Units)
		last = append(last, s)
	}
	return append(last, Source{Units: int64(min(n, MaxUnits))})
}
