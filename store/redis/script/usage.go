package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// Meter is what lua/usage.lua needs of a take with a history, and lua/grants.lua of one with grants.
type Meter struct {
	Keys   [4]string // the history, and of the partition the usages, the order of events and the events
	prefix string    // of all keys of the partition
	take   *limits.Meter
	keep   int
	of     int64
	notify []uint8
	base   string
	names  string
}

// NewMeter returns the meter of a take, whose key lies in a partition whose keys begin with prefix.
func NewMeter(namespace, prefix string, t *stint.Take) *Meter {
	u := transaction.UsageOf(t)
	keep, notify := transaction.Metering(t)
	names, _ := u.AppendBinary(nil) // the error is always nil
	return &Meter{
		Keys:   [4]string{UsageKey(prefix, t.Key), UsagesKey(prefix), orderKey(prefix), eventsKey(prefix)},
		prefix: prefix, take: t.Handling.Meter,
		keep: keep, of: t.Handling.Meter.Of, notify: notify, base: u.EventBase(namespace), names: string(names),
	}
}

// Detach returns a copy that may be used after the call has returned: the grants of a take are the caller's. It
// returns nil for nil.
func (m *Meter) Detach() *Meter {
	if m == nil {
		return nil
	}
	own, take := *m, *m.take
	take.Grants = slices.Clone(take.Grants)
	own.take = &take
	return &own
}

// Book returns the key of the book, which has the same end as that of the history.
func (m *Meter) Book() string { return m.prefix + "grants" + m.Keys[0][len(m.prefix)+len("usage"):] }

// Size returns about how many bytes the keys and arguments have.
func (m *Meter) Size() int { return 4*len(m.Keys[0]) + len(m.names) + 2*len(m.base) }

// Append appends the arguments for decide.lua.
func (m *Meter) Append(args []string) []string {
	args = append(args, Number(int64(m.keep)), Number(m.of), Number(int64(len(m.notify))))
	for _, percent := range m.notify {
		args = append(args, Number(int64(percent)))
	}
	return append(args, m.base, m.names)
}

// Granted reports whether a take with this decision to undo, nil for none, has grants.
func (m *Meter) Granted(undo *stint.Decision) bool { return limits.HasGrants(m.take, undo) }

// AppendGrants appends the arguments about grants for decide.lua. around is as for Form.Append.
func (m *Meter) AppendGrants(args []string, f *Form, cost uint64, around stint.Instant, undo *stint.Decision) []string {
	number := func(n int64) { args = append(args, Number(n)) }
	number(m.take.Rollover)
	number(int64(len(m.take.Grants)))
	for i := range m.take.Grants {
		g := &m.take.Grants[i]
		args = append(args, g.ID, Number(g.Units), Number(Flag(g.Priority < limits.OwnPriority)), Number(int64(g.From)), Number(int64(g.Until)))
	}
	if undo == nil {
		number(-1)
	} else {
		back := limits.SpentLast(undo.Spent, cost)
		number(int64(len(back)))
		for _, b := range back {
			args = append(args, Number(int64(b.Kind)), Number(b.Units), b.Name())
		}
	}
	if !f.Calendar || m.take.Rollover == 0 {
		return append(args, Number(0))
	}
	starts := f.aroundCarries(around)
	number(int64(len(starts)))
	for _, start := range starts {
		number(start)
	}
	return args
}

// GrantFields returns how many numbers decide.lua adds to the answer about a take with grants.
func (m *Meter) GrantFields() int { return 5 + len(m.take.Grants) }

// ReadGrants completes a decision with these numbers. now is the time of the answer.
func (m *Meter) ReadGrants(d *stint.Decision, now stint.Instant, n []int64) {
	d.Limit = limits.LimitWith(d.Limit, m.take, n[1], now)
	d.Remaining += n[0]
	s := limits.Spending{End: stint.Instant(n[2]), Carry: n[3], Own: n[4], Grants: n[5:m.GrantFields()]}
	d.Spent = s.Text(m.take)
}

// UsageKey returns the key of the history of a key.
func UsageKey(prefix string, key stint.Key) string { return beside(prefix, "usage", key) }

// BookKey returns the key of the book of a key.
func BookKey(prefix string, key stint.Key) string { return beside(prefix, "grants", key) }

// beside returns the key of something that stands beside the state of a key.
func beside(prefix, what string, key stint.Key) string {
	if len(key) <= maxText {
		return prefix + what + ":" + string(key)
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + what + "#" + hex.EncodeToString(sum[:16])
}

// UsagesKey returns the key of the index of all histories of a partition.
func UsagesKey(prefix string) string { return prefix + "usages" }

func orderKey(prefix string) string  { return prefix + "events:order" }
func eventsKey(prefix string) string { return prefix + "events" }

// OutboxKeys returns the keys of the outbox of a partition: the order of events, and the events.
func OutboxKeys(prefix string) (order, events string) { return orderKey(prefix), eventsKey(prefix) }

// ErrUsage means that a value in Redis is no history or no event.
var ErrUsage = errors.New("the value is no history of Stint and no event")

// ReadUsage parses the fields of a history. The current period is the last one.
func ReadUsage(fields map[string]string) (u transaction.Usage, err error) {
	if err := u.UnmarshalBinary([]byte(fields["of"])); err != nil {
		return u, ErrUsage
	}
	for field, value := range fields {
		if field == "of" || field == "cur" {
			continue
		}
		p, ok := readPeriod(field+" "+value, u.Plan)
		if !ok {
			return u, ErrUsage
		}
		u.History = append(u.History, p)
	}
	slices.SortFunc(u.History, func(a, b transaction.Period) int { return cmp.Compare(a.End, b.End) })
	current, ok := readPeriod(fields["cur"], u.Plan)
	if !ok {
		return u, ErrUsage
	}
	u.History = append(u.History, current)
	return u, nil
}

// readPeriod parses start, end, used, the thresholds that were reached, and the plan; without one it is plan.
func readPeriod(text, plan string) (p transaction.Period, ok bool) {
	words := strings.SplitN(text, " ", 5)
	switch len(words) {
	case 4:
	case 5:
		plan = words[4]
	default:
		return p, false
	}
	n, ok := readNumbers(words[:3])
	if !ok {
		return p, false
	}
	p.Start, p.End, p.Used, p.Plan = stint.Instant(n[0]), stint.Instant(n[1]), n[2], plan
	for percent := range strings.FieldsFuncSeq(words[3], func(r rune) bool { return r == ',' }) {
		t, err := strconv.ParseUint(percent, 10, 8)
		if err != nil || t > 100 {
			return p, false
		}
		p.Fired.Add(uint8(t))
	}
	return p, true
}

// ReadEvent parses an event.
func ReadEvent(id, text string) (e transaction.Event, err error) {
	words := strings.SplitN(text, " ", 7)
	if len(words) != 7 {
		return e, ErrUsage
	}
	n, ok := readNumbers(words[:6])
	var u transaction.Usage
	if !ok || n[0] > 100 || u.UnmarshalBinary([]byte(words[6])) != nil {
		return e, ErrUsage
	}
	return transaction.Event{
		ID: id, Names: u.Names,
		Threshold: uint8(n[0]), Used: n[1], Of: n[2], Start: stint.Instant(n[3]), End: stint.Instant(n[4]), At: stint.Instant(n[5]),
	}, nil
}

// readNumbers parses whole numbers of at most 2^53.
func readNumbers(words []string) (n []uint64, ok bool) {
	for _, word := range words {
		v, err := strconv.ParseUint(word, 10, 64)
		if err != nil || v > maxState {
			return nil, false
		}
		n = append(n, v)
	}
	return n, true
}
