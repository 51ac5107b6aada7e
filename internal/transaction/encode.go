package transaction

import (
	"encoding/binary"
	"errors"
	"slices"

	"stint"
	"stint/internal/limits"
)

// The bytes of a usage or an event are its texts, each after its length, and its numbers, all as
// uvarints. A usage has the number of its periods, and of each start, end, used, and the thresholds in
// two numbers. If withPlans was added to the number, the plan of each follows, else it is that of the names: so an
// earlier version, which knows no plans of periods, reads histories of one plan.
// A book has the numbers of its carry, the number of its grants, and of each ID, used and until. If withBefore
// was added to the number, the numbers of the carry before follow.

// withPlans is more than any number of periods.
const withPlans = 1 << 10

// withBefore is more than any number of grants of a book.
const withBefore = 1 << 32

// ErrEncoding means that bytes are no usage, no event and no book.
var ErrEncoding = errors.New("no usage, event or book of a store")

// AppendBinary appends the bytes of the usage. The error is always nil.
func (u *Usage) AppendBinary(b []byte) ([]byte, error) {
	b = appendTexts(b, u.texts()...)
	plans := slices.ContainsFunc(u.History, func(p Period) bool { return p.Plan != u.Plan })
	n := uint64(len(u.History))
	if plans {
		n += withPlans
	}
	b = appendNumbers(b, n)
	for _, p := range u.History {
		b = appendNumbers(b, uint64(p.Start), uint64(p.End), p.Used, p.Fired[0], p.Fired[1])
	}
	if plans {
		for i := range u.History {
			b = appendText(b, u.History[i].Plan)
		}
	}
	return b, nil
}

// UnmarshalBinary reads the bytes of a usage.
func (u *Usage) UnmarshalBinary(b []byte) error {
	*u = Usage{}
	c := cursor{left: b}
	c.texts(u.texts()...)
	n := c.number(withPlans + MaxUsage + 1)
	plans := n > withPlans
	if plans {
		n -= withPlans
	}
	for range min(n, MaxUsage+1) {
		p := Period{Start: c.instant(), End: c.instant(), Used: c.number(maxUsed)}
		p.Fired = Thresholds{c.number(1<<64 - 1), c.number(1<<64 - 1)}
		if c.wrong {
			break
		}
		u.History = append(u.History, p)
	}
	for i := range u.History {
		p := &u.History[i]
		if p.Plan = u.Plan; plans {
			if plan := c.text(); plan != u.Plan { // else they share memory
				p.Plan = plan
			}
		}
	}
	return c.end()
}

// AppendBinary appends the bytes of the event. The error is always nil.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	b = appendTexts(appendText(b, e.ID), e.texts()...)
	return appendNumbers(b, uint64(e.Threshold), e.Used, e.Of, uint64(e.Start), uint64(e.End), uint64(e.At)), nil
}

// UnmarshalBinary reads the bytes of an event.
func (e *Event) UnmarshalBinary(b []byte) error {
	*e = Event{}
	c := cursor{left: b}
	e.ID = c.text()
	c.texts(e.texts()...)
	e.Threshold, e.Used, e.Of = uint8(c.number(100)), c.number(1<<64-1), c.number(1<<64-1)
	e.Start, e.End, e.At = c.instant(), c.instant(), c.instant()
	return c.end()
}

// AppendBook appends the bytes of a book.
func AppendBook(to []byte, b *Book) []byte {
	n := uint64(len(b.Grants))
	if b.Before.End != 0 {
		n += withBefore
	}
	to = appendNumbers(appendCarry(to, &b.Carry), n)
	for i := range b.Grants {
		g := &b.Grants[i]
		to = appendNumbers(appendText(to, g.ID), uint64(g.Used), uint64(g.Until))
	}
	if b.Before.End != 0 {
		to = appendCarry(to, &b.Before)
	}
	return to
}

func appendCarry(to []byte, c *limits.Carry) []byte {
	return appendNumbers(to, uint64(c.Start), uint64(c.End), uint64(c.Units), uint64(c.Used), uint64(c.Own), uint64(c.Of))
}

// ReadBook reads the bytes of a book.
func ReadBook(from []byte, b *Book) error {
	c := cursor{left: from}
	*b = Book{}
	b.Carry = c.carry()
	n := c.number(withBefore + uint64(len(from)))
	for range n % withBefore {
		b.Grants = append(b.Grants, limits.GrantUse{ID: c.text(), Used: c.units(), Until: c.instant()})
		if c.wrong {
			break
		}
	}
	if n >= withBefore {
		b.Before = c.carry()
	}
	return c.end()
}

func appendTexts(b []byte, texts ...*string) []byte {
	for _, text := range texts {
		b = appendText(b, *text)
	}
	return b
}

// appendText appends a text after its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// cursor reads bytes. After a fault it reads zeros.
type cursor struct {
	left  []byte
	wrong bool
}

// number returns the next number, which is at most most.
func (c *cursor) number(most uint64) uint64 {
	v, n := binary.Uvarint(c.left)
	if n <= 0 || v > most {
		c.wrong, c.left = true, nil
		return 0
	}
	c.left = c.left[n:]
	return v
}

// carry returns the next carry.
func (c *cursor) carry() (r limits.Carry) {
	r.Start, r.End = c.instant(), c.instant()
	for _, n := range []*int64{&r.Units, &r.Used, &r.Own, &r.Of} {
		*n = c.units()
	}
	return r
}

func (c *cursor) instant() stint.Instant { return stint.Instant(c.number(uint64(stint.MaxInstant))) }

func (c *cursor) units() int64 { return int64(c.number(maxUsed)) }

// texts reads texts.
func (c *cursor) texts(into ...*string) {
	for _, text := range into {
		*text = c.text()
	}
}

// text reads a text after its length.
func (c *cursor) text() (text string) {
	n := c.number(uint64(len(c.left)))
	if n > uint64(len(c.left)) {
		c.wrong, c.left = true, nil
		return ""
	}
	text, c.left = string(c.left[:n]), c.left[n:]
	return text
}

// end returns ErrEncoding after a fault, and if bytes are left.
func (c *cursor) end() error {
	if c.wrong || len(c.left) > 0 {
		return ErrEncoding
	}
	return nil
}
