package redis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// batch is a call on its way to the server and back. Takes that are decided as one are a group;
// takes of one key in a group are one part.
type batch struct {
	parts      []part
	groups     []group
	partOf     []int // index in parts of each take's part
	call       *stint.Call
	plan       transaction.Plan[transaction.ID] // plan of the group that add reads
	at         stint.Instant                    // Call.At
	notPresent bool                             // at differs from the present by more than 5 s
	now        stint.Instant                    // write sent the calendar windows around this time

	mode    mode
	only    int          // index of the only group to write; -1: all
	written int          // number of groups written
	size    int          // bytes of the keys and arguments; bounds what leaves together
	inUse   bool         // a sender may still read the batch, so it is not reused
	kinds   script.Kinds // algorithms that the script must contain
	more    script.Kinds // algorithms of states that a script found and could not read
	keys    []string
	args    []string
	epoch   string                // key of the epoch; "" if nothing may be lent
	process string                // key of the process; "" if nothing may be lent
	quick   *connect.QuickScripts // the quick scripts that decide the batch
	found   stint.Instant         // time at which quick.lua decided
	slot    waiter
}

// mode is what decide.lua does with a group, see script/lua/decide.lua.
type mode int

const (
	modeDecide mode = iota
	modeTest
	modeDenied
)

// group is the parts first to end-1 of a batch, decided all or none.
type group struct {
	first, end  int
	take        int  // index of its first take, or transaction.AllOrNone
	candidate   bool // a candidate, see candidate.go
	instead     int  // one more than the index of the part for which the candidate stands; 0: it depends on nothing
	done        bool
	undecodable bool // the server cannot read the state of some part, so the group is not decided
}

// part is the sum of a group's takes of one key.
type part struct {
	*script.Form
	name        string // key in Redis; "" without a limit
	partition   int
	op          stint.Op
	undo        *stint.Decision
	loan        *stint.Loan
	known       stint.Instant         // epoch of the partition that this store remembers
	keyPrefix   string                // of the partition; "" without a loan
	began       stint.Instant         // the epoch of decide.lua's answer, below 0 if it follows a loss; 0: none
	meter       *script.Meter         // the history of its key; nil: none
	durable     *script.DurableTake   // nil: it is not durable
	process     int64                 // the address of the server's interpreter in that answer
	quick       *connect.QuickScripts // the quick scripts that may decide the part with its loan; nil: none
	recent      bool                  // the key probably has a value; false where that does not matter
	cost        uint64
	test        bool  // only tested: the quick scripts look at the state
	borrows     uint8 // Take.Borrows
	isSource    bool  // other parts borrow from it
	asked       bool  // some take wants it for itself, not only as a source
	sources     []source
	keyUse      int    // index in manifest.uses; -1: none
	merged      int    // index in manifest.merged; -1: decided by itself
	word        int64  // state that quick.lua found
	undecodable string // why its state cannot be read; "" if it can
	writes      bool   // answer of a test: a denial would change the state too

	result stint.Decision
}

// source is a part of the same group from which another part borrows, and how many units.
type source struct {
	part int
	cost uint64
}

// clear empties the batch and keeps its allocated memory.
func (b *batch) clear() {
	clear(b.parts)
	clear(b.keys)
	clear(b.args)
	*b = batch{
		only: -1, parts: b.parts[:0], groups: b.groups[:0], partOf: b.partOf[:0], keys: b.keys[:0], args: b.args[:0],
		slot: waiter{done: b.slot.done}, plan: b.plan,
	}
}

// gather turns the takes of a call into parts. The parts of a group lie side by side.
func (b *batch) gather(s *Store, c *stint.Call) error {
	if err := limits.CheckGrants(c); err != nil {
		return err
	}
	b.at, b.call, b.plan.Name = c.At, c, transaction.IDOf
	b.partOf = slices.Grow(b.partOf, len(c.Takes))[:len(c.Takes)]
	for take := range transaction.Groups(c) {
		if err := b.plan.Collect(c, take); err != nil {
			return err
		}
		b.add(s, c, take)
		b.plan.Release()
	}
	return nil
}

// add appends the group that b.plan describes.
func (b *batch) add(s *Store, c *stint.Call, take int) {
	g := group{first: len(b.parts), take: take}
	for i := range b.plan.Parts {
		p := &b.plan.Parts[i]
		q := part{
			Form: s.forms.Of(p.Limit), op: p.Take.Op, undo: p.Take.Undo, cost: p.Cost,
			borrows: p.Take.Borrows, isSource: p.Source, asked: p.Asked,
		}
		if p.Limit.Algorithm() != stint.Unlimited {
			q.name, q.partition = s.name(p.Take)
		}
		if q.borrows > 0 {
			for from, cost := range b.plan.Sources(i) {
				q.sources = append(q.sources, source{from, cost})
			}
		}
		if p.Take.Metered() && q.Window() {
			q.meter = script.NewMeter(s.namespace, s.keyPrefixes[q.partition], p.Take)
		}
		if q.name != "" {
			q.durable = script.NewDurableTake(s.keyPrefixes[q.partition], &s.ledgers[q.partition], p.Take)
		}
		b.parts = append(b.parts, q)
	}
	g.end = len(b.parts)
	b.setCandidate(c, &g)
	b.groups = append(b.groups, g)
	for i, n := range b.plan.Takes() {
		b.partOf[i] = g.first + n
		p := &b.parts[g.first+n]
		if t := &c.Takes[i]; t.Loan() != nil && p.loan == nil && p.name != "" {
			p.loan, p.keyPrefix = t.Loan(), s.keyPrefixes[p.partition]
			known := s.epochs[p.partition].load()
			p.known, p.quick = known.at(), p.scriptsIn(&known)
			p.recent = p.checks() && s.recent.Has(p.name, uptime())
		}
	}
}

// name returns the key in Redis of a take's state, and its partition.
func (s *Store) name(t *stint.Take) (name string, partition int) {
	algorithm, key := t.Limit.Algorithm(), t.Key
	partition = s.partition(t)
	return script.Key(s.keyPrefixes[partition], algorithm, key), partition
}

// partition returns the partition of a take's key.
func (s *Store) partition(t *stint.Take) int {
	if s.tags == nil {
		return 0
	}
	return connect.PartitionOf(string(t.Place()), len(s.tags))
}

// partition returns the partition of the groups that write would write. They all lie in one.
func (b *batch) partition() int {
	for i := range b.groups {
		if b.only >= 0 && b.only != i {
			continue
		}
		for _, p := range b.parts[b.groups[i].first:b.groups[i].end] {
			if p.name != "" {
				return p.partition
			}
		}
	}
	return 0
}

// inOnePartition reports whether all parts lie in one partition.
func (b *batch) inOnePartition(parts []part) bool {
	first := -1
	for i := range parts {
		switch {
		case parts[i].name == "":
		case first < 0:
			first = parts[i].partition
		case parts[i].partition != first:
			return false
		}
	}
	return true
}

// Redis keeps keys this many milliseconds longer than their states need, buckets five seconds less:
// see Store and script/lua/write.lua. spareFixed is for calls whose At is not the present.
const (
	spare           = int64(15 * time.Second / time.Millisecond)
	spareNotPresent = int64(time.Hour / time.Millisecond)
)

// presentRange is how far Call.At may be from this node's clock to count as the present.
const presentRange = stint.Instant(5 * time.Second / time.Microsecond)

// spare returns how many milliseconds Redis keeps keys longer than their states need.
func (b *batch) spare() int64 {
	if b.notPresent {
		return spareNotPresent
	}
	return spare
}

// partBytes is the approximate size of a part's arguments, without its key.
const partBytes = 64

// write writes the keys and arguments of decide.lua for the groups that are not done, with the
// calendar windows around now. It reports whether there are any.
func (b *batch) write(now stint.Instant) bool {
	b.keys, b.args, b.kinds, b.now, b.written, b.size, b.epoch, b.process = b.keys[:0], b.args[:0], b.more, now, 0, 0, "", ""
	for i := range b.groups {
		g := &b.groups[i]
		if !g.done && !g.undecodable && (b.only < 0 || b.only == i) && !b.unlimited(g, now) {
			b.writeGroup(g, len(b.args) > 0)
			b.written++
		}
	}
	return len(b.args) > 0
}

// unlimited answers a group whose parts have no limit. It returns false if some part has one.
func (b *batch) unlimited(g *group, now stint.Instant) bool {
	parts := b.parts[g.first:g.end]
	for i := range parts {
		if parts[i].name != "" {
			return false
		}
	}
	_ = b.plan.Collect(b.call, g.take) // gather has done the same
	b.plan.DecideUnlimited(now)
	for i := range parts {
		parts[i].result = b.plan.Parts[i].Result
	}
	b.plan.Release()
	g.done = true
	return true
}

func (b *batch) number(n int64) { b.args = append(b.args, script.Number(n)) }

// writeGroup writes the arguments of decide.lua for a group.
func (b *batch) writeGroup(g *group, follows bool) {
	b.number(int64(b.at))
	b.number(b.spare())
	b.number(b.follow(g, follows))
	b.number(int64(b.mode))
	b.number(int64(g.end - g.first))
	for i := g.first; i < g.end; i++ {
		p := &b.parts[i]
		b.kinds |= p.Kinds
		if p.loan != nil {
			b.kinds |= script.Lend
			b.epoch, b.process = p.keyPrefix+epochKey, p.keyPrefix+processKey
		}
		b.writePart(p)
		if p.name != "" {
			b.keys = append(b.keys, p.name)
			b.size += len(p.name) + partBytes
		}
		if p.meter != nil {
			b.kinds |= script.Usage
			b.keys = append(b.keys, p.meter.Keys[:]...)
			b.size += p.meter.Size()
		}
		if p.granted() {
			b.kinds |= script.Grants
			b.keys = append(b.keys, p.meter.Book())
		}
		if p.durable != nil {
			b.kinds |= script.Durable
			b.keys = append(b.keys, p.durable.Key)
			b.size += partBytes
		}
	}
}

func (b *batch) writePart(p *part) {
	b.args = p.Append(b.args, p.op, p.cost, p.scriptFlags(), b.now, p.undo)
	if p.borrows > 0 {
		b.number(int64(len(p.sources)))
		for _, l := range p.sources {
			b.number(int64(l.part + 1))
			b.number(int64(l.cost))
		}
	}
	if p.loan != nil {
		for _, n := range script.LoanNumbers(p.loan, p.known) {
			b.number(n)
		}
	}
	if p.meter != nil {
		b.args = p.meter.Append(b.args)
	}
	if p.granted() {
		b.args = p.meter.AppendGrants(b.args, p.Form, p.cost, b.now, p.undo)
	}
	if p.durable != nil {
		b.args = p.durable.Append(b.args)
	}
}

// granted reports whether a part has grants.
func (p *part) granted() bool { return p.meter != nil && p.meter.Granted(p.undo) }

// scriptFlags returns the flags of a part for decide.lua.
func (p *part) scriptFlags() int64 {
	flags := p.Flags
	if p.isSource {
		flags |= script.FlagSource
		if !p.asked {
			flags |= script.FlagUnasked
		}
	}
	if p.undo != nil {
		flags |= script.FlagUndo
	}
	if p.borrows > 0 {
		flags |= script.FlagBorrows
	}
	if p.loan != nil {
		flags |= script.FlagLoan
	}
	if p.meter != nil {
		flags |= script.FlagUsage
	}
	if p.granted() {
		flags |= script.FlagGrants
	}
	if p.durable != nil {
		flags |= script.FlagDurable
	}
	return flags
}

// read reads the answers of the groups that were not done. If again is not 0 it is the server's
// time, and some groups must be sent once more.
func (b *batch) read(reply []message) (again stint.Instant, err error) {
	for i := range b.groups {
		g := &b.groups[i]
		if g.done || g.undecodable || b.only >= 0 && b.only != i {
			continue
		}
		if len(reply) == 0 {
			return 0, errReply
		}
		answer := reply[0]
		reply = reply[1:]
		if answer.IsArray() {
			if err := b.readGroup(g, answer); err != nil {
				return 0, err
			}
			continue
		}
		problem, textErr := answer.ToString()
		if textErr != nil {
			return 0, errReply
		}
		if at, ok := b.retry(problem); ok {
			again = at
			continue
		}
		if b.noteUndecodable(g, problem) {
			continue
		}
		problem = script.Problem(problem)
		if problem != "" && g.candidate { // it fails alone
			g.undecodable, b.parts[g.first].undecodable = true, connect.Plain(problem)
		} else if problem != "" {
			err = connect.ExplainText("decide", problem)
		}
	}
	if err != nil && b.charged() {
		return 0, fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	return again, err
}

// charged reports whether the server has decided some group.
func (b *batch) charged() bool {
	return slices.ContainsFunc(b.groups, func(g group) bool {
		return g.done && slices.ContainsFunc(b.parts[g.first:g.end], func(p part) bool { return p.name != "" })
	})
}

// retry reports whether sending a group once more can decide it, and returns the server's time for
// that.
func (b *batch) retry(problem string) (at stint.Instant, ok bool) {
	if lost, is := script.UnknownLoss(problem); is {
		for i := range b.parts {
			if p := &b.parts[i]; p.durable != nil {
				p.durable.NoteLoss(lost)
			}
		}
		return b.now, true
	}
	now, more, ok := script.Retry(problem)
	switch {
	case !ok || more == 0:
		return now, ok
	case b.kinds&more == more:
		return 0, false
	}
	b.more |= more
	return b.now, true
}

// errReply is the error about an answer that none of our scripts gives.
var errReply = fmt.Errorf("redis: %w: the server's answer has the wrong form", stint.ErrUnknown)

// readGroup reads the answers for the parts of a group.
func (b *batch) readGroup(g *group, answer message) error {
	numbers, err := answer.AsIntSlice()
	want := 1 + script.Fields*(g.end-g.first)
	var durable *script.DurableTake
	for i := g.first; i < g.end; i++ {
		if b.parts[i].loan != nil {
			want += script.LoanFields
		}
		if b.parts[i].granted() {
			want += b.parts[i].meter.GrantFields()
		}
		durable = cmp.Or(b.parts[i].durable, durable)
	}
	if durable != nil {
		numbers = durable.CutLedger(numbers)
	}
	if err != nil || len(numbers) != want {
		return errReply
	}
	at, next := stint.Instant(numbers[0]), numbers[1:]
	for i := g.first; i < g.end; i++ {
		p, n := &b.parts[i], next
		next = next[script.Fields:]
		if p.loan != nil {
			p.began, p.process = script.ReadLoan(p.loan, next)
			next = next[script.LoanFields:]
		}
		p.result, p.writes = p.Decision(at, n)
		if p.name == "" {
			p.result.Limit, p.result.Remaining = stint.NoLimit, stint.NoLimit
		}
		if p.granted() {
			p.meter.ReadGrants(&p.result, at, next)
			next = next[p.meter.GrantFields():]
		}
	}
	g.done = true
	return nil
}
