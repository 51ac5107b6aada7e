package line

import (
	"container/list"
	"encoding/hex"
	"time"
)

// ID identifies a line: a rule, and the hash of the key whose bucket the rule counts.
type ID struct {
	Domain, Rule string
	Key          [16]byte
}

// String returns the domain, the rule, and the hash in hexadecimal digits.
func (id ID) String() string { return id.Domain + " " + id.Rule + " " + hex.EncodeToString(id.Key[:]) }

// line is one line. It exists while a request waits in it.
type line struct {
	id     ID
	places list.List // of *Place; the first takes next
	cost   uint64    // of all places
	tryAt  time.Time // when the first place takes again
	rate   Rate
}

// first returns the first place.
func (l *line) first() *Place {
	if front := l.places.Front(); front != nil {
		return front.Value.(*Place)
	}
	return nil
}

// room returns when the limit has room for a request of this cost behind all others, if nobody else
// takes from it and nobody leaves. It is never later than that, and exact for a limit that refills
// steadily.
func (l *line) room(cost uint32) time.Time {
	first := l.first()
	if first == nil {
		return l.tryAt
	}
	return l.tryAt.Add(l.rate.refill(l.cost+uint64(cost), first.cost))
}

// passed sets when the next place takes, after the first one passed and left this much room.
func (l *line) passed(now time.Time, remaining int64) {
	next := l.first()
	if next == nil {
		return
	}
	if l.rate.Lot != 1 || remaining >= int64(next.cost) {
		l.tryAt = now
		return
	}
	// By the clock of the limit, so that what is lost by late timers is not lost for the line.
	l.tryAt = l.tryAt.Add(time.Duration(next.cost) * l.rate.Every)
}

// Rate is how fast a limit gets room: Lot units each Every. Lot 1 means that it does so steadily, and
// 0 that nothing is known.
type Rate struct {
	Lot   uint32
	Every time.Duration

	// Sharp is set if a limit keeps no units for who comes a millisecond late. Then requests take on
	// time, which costs a thread for the last two milliseconds.
	Sharp bool
}

// refill returns how long after its first request a line of this cost is empty. The first lot comes
// with the first request.
func (r Rate) refill(cost uint64, first uint32) time.Duration {
	if r.Lot == 0 || r.Every <= 0 {
		return 0
	}
	lot := uint64(r.Lot)
	more := cost - min(cost, max(uint64(first), lot))
	lots := (more + lot - 1) / lot
	const longest = 1 << 62
	if lots > longest/uint64(r.Every) {
		return longest
	}
	return time.Duration(lots) * r.Every
}

// add puts a place behind all that have a lower ticket.
func (l *line) add(p *Place) {
	l.cost += uint64(p.cost)
	p.line = l
	for e := l.places.Back(); e != nil; e = e.Prev() {
		if e.Value.(*Place).ticket < p.ticket {
			p.element = l.places.InsertAfter(p, e)
			return
		}
	}
	p.element = l.places.PushFront(p)
}

// remove removes a place.
func (l *line) remove(p *Place) {
	l.cost -= uint64(p.cost)
	l.places.Remove(p.element)
	p.line, p.element = nil, nil
}

// wake lets the first place look again whether it may take.
func (l *line) wake() {
	if first := l.first(); first != nil {
		select {
		case first.turn <- struct{}{}:
		default: // it will look anyway
		}
	}
}
