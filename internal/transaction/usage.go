package transaction

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"stint"
	"stint/internal/limits"
)

// MaxUsage is the largest stint.Terms.Usage: a year of days and a month.
const MaxUsage = 400

// MaxEvents is the largest number of events in the outbox of a store in memory, or of a partition in
// Redis. While it is full no threshold is reached: the event follows with the first take after there
// is room again.
const MaxEvents = 1 << 16

// maxUsed is the largest number of units of a period.
const maxUsed = 1<<53 - 1

// Period is the use of a key in one window.
type Period struct {
	Start, End stint.Instant
	Used       uint64 // units that were admitted less those that were given back
	Fired      Thresholds
	Plan       string // that was charged last in it
}

// Thresholds is a set of percentages from 1 to 100.
type Thresholds [2]uint64

// Has reports whether a percentage is in the set.
func (t Thresholds) Has(percent uint8) bool { return t[percent>>6]&(1<<(percent&63)) != 0 }

// Add adds a percentage to the set.
func (t *Thresholds) Add(percent uint8) { t[percent>>6] |= 1 << (percent & 63) }

// History is the use of a key by periods. The last one is current: it was charged last. The zero
// History is that of a key without use. It belongs to one goroutine at a time.
type History []Period

// Charge adds a change to the history, which keeps that many periods before the current one, and
// returns the thresholds that are reached: in ascending order those of notify, percentages of a number
// of units, that the period has not reached before. Giving back takes no threshold back. room is how
// many events there is room for: thresholds for which there is none are reached later.
func (h *History) Charge(c UseChange, keep int, of int64, notify []uint8, room int) (fired []uint8) {
	if c.Charged == 0 {
		return nil
	}
	p := h.current(c.Start, c.End, keep)
	p.Used = min(p.Used+c.Charged, maxUsed)
	for _, t := range notify {
		if uint64(c.Used)*100 < uint64(t)*uint64(of) || p.Fired.Has(t) || len(fired) >= room {
			continue
		}
		p.Fired.Add(t)
		fired = append(fired, t)
	}
	return fired
}

// current makes the period from start to end the last one, and returns it. If the history grows beyond
// keep and one, the period that ended first is dropped.
func (h *History) current(start, end stint.Instant, keep int) *Period {
	n := len(*h)
	if n > 0 && (*h)[n-1].Start == start && (*h)[n-1].End == end { // nearly always
		return &(*h)[n-1]
	}
	p := Period{Start: start, End: end}
	if i := slices.IndexFunc(*h, func(o Period) bool { return o.Start == start && o.End == end }); i >= 0 { // the clock ran backwards
		p = (*h)[i]
		*h = slices.Delete(*h, i, i+1)
	}
	for len(*h) > keep {
		first := 0
		for i := range *h {
			if ended(&(*h)[i], &(*h)[first]) < 0 {
				first = i
			}
		}
		*h = slices.Delete(*h, first, first+1)
	}
	*h = append(*h, p)
	return &(*h)[len(*h)-1]
}

// GiveBack takes units that were given back at now out of the current period, if that has not ended.
func (h History) GiveBack(units uint64, now stint.Instant) {
	if len(h) == 0 {
		return
	}
	if p := &h[len(h)-1]; now < p.End {
		p.Used -= min(p.Used, units)
	}
}

// ended compares the ends of two periods.
func ended(a, b *Period) int { return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start)) }

// Expiry returns the time from which no period of the history is among the keep before the current
// one.
func (h History) Expiry(limit *stint.Limit, keep int) stint.Instant {
	if len(h) == 0 {
		return 0
	}
	p := h[len(h)-1]
	return min(p.End+stint.Instant(keep)*limits.LongestWindow(limit, p.Start, p.End), stint.MaxInstant)
}

// At returns the history as it is at now, whether the key was used since or not: the periods with
// use of the last keep windows of a limit in order, and then the current one, which may have none.
func (h History) At(limit *stint.Limit, keep int, now stint.Instant) []Period {
	l, untouched := limit.ForStores(), new(stint.State)
	current := Period{}
	current.Start, current.End = l.Window(untouched, now)
	if n := len(h); n > 0 && now < h[n-1].End {
		current = h[n-1]
	}
	first := current.Start
	for range keep {
		if first <= 0 {
			break
		}
		if limit.Spec().FromFirst {
			first -= stint.Instant(limit.Spec().Per.Microseconds())
			continue
		}
		first, _ = l.Window(untouched, first-1)
	}
	var all []Period
	for _, p := range h {
		if p.End > first && (p.Start != current.Start || p.End != current.End) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Period) int { return ended(&a, &b) })
	return append(all, current)
}

// Names say whose history or event it is.
type Names struct {
	Domain, Rule, Limit string
	Subject, Plan       string
}

// Usage is the history of a key with its names.
type Usage struct {
	Names
	History History

	// Book is what the key used of grants and of its rollover; nil: it used none. It has bytes of its own, see
	// AppendBook. Only the history of one key has it, not each of all.
	Book *Book
}

// NamesOf returns a take's names.
func NamesOf(t *stint.Take) Names {
	m := t.Handling.Meter
	n := Names{Limit: m.Limit, Subject: m.Subject, Plan: m.Plan}
	if terms := t.Terms(); terms != nil {
		n.Domain, n.Rule = terms.Domain, terms.Rule
	}
	return n
}

// UsageOf returns a take's names with an empty history.
func UsageOf(t *stint.Take) Usage { return Usage{Names: NamesOf(t)} }

// Named reports whether the names are those of a take.
func (n *Names) Named(t *stint.Take) bool {
	m, terms := t.Handling.Meter, t.Terms()
	return n.Subject == m.Subject && n.Plan == m.Plan && n.Limit == m.Limit && (terms == nil || n.Rule == terms.Rule && n.Domain == terms.Domain)
}

// texts returns the names in the order in which they are written.
func (n *Names) texts() []*string {
	return []*string{&n.Domain, &n.Rule, &n.Limit, &n.Subject, &n.Plan}
}

// Clone returns a copy that shares no memory with the take.
func (n Names) Clone() Names {
	for _, text := range n.texts() {
		*text = strings.Clone(*text)
	}
	return n
}

// Size returns about how many bytes the texts and periods need.
func (u *Usage) Size() int {
	return len(u.Domain) + len(u.Rule) + len(u.Limit) + len(u.Subject) + len(u.Plan) + int(unsafe.Sizeof(Period{}))*cap(u.History)
}

// Charge is [History.Charge], after which the current period has the plan of the names.
func (u *Usage) Charge(c UseChange, keep int, of int64, notify []uint8, room int) (fired []uint8) {
	fired = u.History.Charge(c, keep, of, notify, room)
	if n := len(u.History); n > 0 && c.Charged > 0 {
		u.History[n-1].Plan = u.Plan
	}
	return fired
}

// Clone returns a copy that shares no memory with the take.
func (u *Usage) Clone() Usage { return Usage{u.Names.Clone(), slices.Clone(u.History), u.Book.Clone()} }

// Metering returns what the terms of a take keep of its history.
func Metering(t *stint.Take) (keep int, notify []uint8) {
	if terms := t.Terms(); terms != nil {
		return terms.Usage, terms.Notify
	}
	return 0, nil
}

// WithHistory returns the take if its key has a history, else nil.
func WithHistory(t *stint.Take) *stint.Take {
	if !t.Metered() || t.Limit.Algorithm() != stint.FixedWindow {
		return nil
	}
	return t
}

// Event is a threshold that a key has reached, see package notify.
type Event struct {
	ID string
	Names
	Threshold      uint8
	Used, Of       uint64
	Start, End, At stint.Instant
}

// RuleName returns DOMAIN/NAME of the rule. Names that were not given begin with the domain.
func (e *Event) RuleName() string { return RuleName(e.Domain, e.Rule) }

// Join returns the usage of a key of which two stores have a part: the sum of their periods.
func (u *Usage) Join(other *Usage) Usage {
	book := u.Book.Join(other.Book)
	if len(u.History) == 0 {
		u, other = other, u // the names are those of a part with a history
	}
	sum := u.Clone()
	sum.Book = book
	for _, p := range other.History {
		i := slices.IndexFunc(sum.History, func(o Period) bool { return o.Start == p.Start && o.End == p.End })
		if i < 0 {
			sum.History = append(sum.History, p)
			continue
		}
		o := &sum.History[i]
		o.Used = min(o.Used+p.Used, maxUsed)
		o.Fired = Thresholds{o.Fired[0] | p.Fired[0], o.Fired[1] | p.Fired[1]}
	}
	slices.SortStableFunc(sum.History, func(a, b Period) int { return ended(&a, &b) })
	return sum
}

// EventBase returns the part of an event's ID that all thresholds and periods of a key share.
func (n *Names) EventBase(namespace string) string {
	hash := sha256.New()
	for _, text := range []string{namespace, n.Domain, n.Rule, n.Limit, n.Subject} {
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// EventID returns the ID of an event: a hash of the base, the threshold and the period. It is SHA-1,
// as scripts in Redis have no other; only a store chooses what is hashed.
func EventID(base string, threshold uint8, start, end stint.Instant) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d %d %d", base, threshold, start, end))
	return hex.EncodeToString(sum[:])
}
