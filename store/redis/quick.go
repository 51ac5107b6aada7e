package redis

import (
	"context"
	_ "embed" // the scripts
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"stint"
)

//go:embed lua/quick.lua
var quickSource string

//go:embed lua/one.lua
var oneSource string

// quickScript decides what nearly all takes are; see lua/quick.lua. Everything else, and
// what it cannot read, is left to decide.lua.
var quickScript = rueidis.NewLuaScript(quickSource)

// oneScript decides one take of a token bucket by itself; see lua/one.lua.
var oneScript = rueidis.NewLuaScript(oneSource)

// quickForm are the numbers of a limit for quick.lua.
type quickForm struct {
	head, full, wait string
	charge           uint64 // of one unit
	window           bool
}

// otherEpoch is what quick.lua says of all keys where another epoch is in force than it was
// told, or one before which another was lost.
const otherEpoch = -2

// noWait is longer than anybody waits, and maxUnits above the capacity of everything.
const (
	noWait   = 1 << 52
	maxUnits = 1 << 52
)

// newQuickForm returns the numbers of a limit, nil where quick.lua cannot decide it.
func newQuickForm(limit *stint.Limit, head string) *quickForm {
	s := limit.Spec()
	if s.Step || s.Hold || s.Overdraw || s.Requests == 0 || s.FromFirst || s.CarryDebt || s.Calendar != stint.NoPeriod {
		return nil
	}
	per, requests, wait := s.Per.Microseconds(), int64(s.Requests), int64(noWait)
	charge := (per + requests - 1) / requests
	switch s.Algorithm {
	case stint.TokenBucket:
	case stint.LeakyBucket:
		if s.MaxWait > 0 {
			wait = s.MaxWait.Microseconds()
		}
	case stint.FixedWindow:
		charge, wait = 1, per
	default:
		return nil
	}
	return &quickForm{
		head: head + "|", full: number(charge * limit.Most()), wait: number(wait),
		charge: uint64(charge), window: s.Algorithm == stint.FixedWindow,
	}
}

// units returns what a part takes, in the measure of its limit.
func (p *part) units() string {
	if p.cost > uint64(p.limit.Most()) {
		return number(maxUnits)
	}
	return number(int64(p.cost * p.quick.charge))
}

// isQuick says whether quick.lua can decide the whole batch.
func (b *batch) isQuick() bool {
	if len(b.groups) == 0 || len(b.parts) > maxTogether || b.only >= 0 || b.mode != modeDecide {
		return false
	}
	b.epoch, b.known = "", 0
	for i := range b.parts {
		p := &b.parts[i]
		if p.quick == nil || p.op != stint.Ask || p.lends > 0 || p.held || p.loan != nil && !p.cold {
			return false
		}
		if p.loan != nil {
			if b.known != 0 && b.known != p.known {
				return false
			}
			b.epoch, b.known = p.epoch, p.known
		}
	}
	return len(b.groups) == 1 || !b.renumbers()
}

// renumbers says whether groups ask for one key under limits of other numbers: then each
// must be decided before the next.
func (b *batch) renumbers() bool {
	for i := range b.parts {
		for j := range i {
			if b.parts[i].name == b.parts[j].name && b.parts[i].head != b.parts[j].head {
				return true
			}
		}
	}
	return false
}

// quickWith says whether two batches that quick.lua can decide may travel together.
func (b *batch) quickWith(other *batch) bool {
	return b.at == other.at && b.epoch == other.epoch && b.known == other.known
}

// execQuick has batches decided by the script that suits their number.
func execQuick(ctx context.Context, client rueidis.Client, group []*passenger) rueidis.RedisResult {
	first := group[0].batch
	if b := first; len(group) == 1 && len(b.parts) == 1 && b.at == 0 && b.epoch == "" && b.parts[0].limit.Algorithm() == stint.TokenBucket {
		p := &b.parts[0]
		return oneScript.Exec(ctx, client, []string{p.name}, []string{p.quick.head, p.units(), p.quick.full})
	}
	var q quickArgs
	for _, p := range group {
		q.add(p.batch)
	}
	words := q.words(first.at)
	if first.epoch != "" {
		q.keys, words = append(q.keys, first.epoch), append(words, number(int64(first.known)))
	}
	return quickScript.Exec(ctx, client, q.keys, words)
}

// quickArgs are the words of several batches for quick.lua.
type quickArgs struct {
	keys  []string
	plan  []byte
	forms []asked
}

// asked is a limit and how many units of it are asked for.
type asked struct {
	of   *quickForm
	cost uint64
	part *part // one that asks
}

// together says in the plan that the next key is of the same group; below it there is
// room for so many forms.
const together = 128

// add adds a batch.
func (q *quickArgs) add(b *batch) {
	for i := range b.groups {
		g := &b.groups[i]
		for j := g.first; j < g.end; j++ {
			p := &b.parts[j]
			place := byte(q.place(p))
			if j < g.end-1 {
				place |= together
			}
			q.keys, q.plan = append(q.keys, p.name), append(q.plan, place)
		}
	}
}

// place returns the place of the form of a part.
func (q *quickArgs) place(p *part) int {
	if i := slices.IndexFunc(q.forms, func(a asked) bool { return a.of == p.quick && a.cost == p.cost }); i >= 0 {
		return i
	}
	q.forms = append(q.forms, asked{p.quick, p.cost, p})
	return len(q.forms) - 1
}

// words returns all arguments.
func (q *quickArgs) words(at stint.Instant) []string {
	words := make([]string, 0, 3+4*len(q.forms))
	lives := spare
	if at != 0 {
		lives = spareFixed
	}
	words = append(words, number(int64(at)), number(lives), string(q.plan))
	for _, f := range q.forms {
		words = append(words, f.of.head, f.part.units(), f.of.full, f.of.wait)
	}
	return words
}

// small are the words of small numbers.
var small = func() (words [256]string) {
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	return words
}()

func number(n int64) string {
	if n >= 0 && n < int64(len(small)) {
		return small[n]
	}
	return strconv.FormatInt(n, 10)
}

// state returns the state that quick.lua found, by the number that it answered.
func (f *quickForm) state(found int64, limit *stint.Limit, now stint.Instant) stint.State {
	if !f.window {
		return stint.State{T: found}
	}
	if found == 0 {
		return stint.State{}
	}
	return stint.State{T: int64(now) - int64(now)%limit.Spec().Per.Microseconds(), N: found}
}

// readQuick works out the decisions from the states that were found; false where
// decide.lua has to be asked about some group. It is right because the script does what
// stint.Limit.Take does.
func (b *batch) readQuick(now stint.Instant, found []message) (done bool, err error) {
	done = true
	for i := range b.groups {
		g := &b.groups[i]
		parts, states := b.parts[g.first:g.end], found[g.first:g.end]
		if g.done, err = answerQuick(parts, states, now); err != nil {
			return false, err
		}
		done = done && g.done
	}
	return done, nil
}

// answerQuick answers the parts of a group; false if some state could not be read.
func answerQuick(parts []part, found []message, now stint.Instant) (known bool, err error) {
	pass := true
	for i := range parts {
		p := &parts[i]
		if p.word, err = found[i].AsInt64(); err != nil {
			return false, errReply
		}
		if p.word < 0 {
			return false, nil
		}
		st := p.quick.state(p.word, p.limit, now)
		p.result = p.limit.Take(&st, now, p.cost)
		pass = pass && p.result.Allowed
	}
	for i := range parts {
		p := &parts[i]
		if !pass && p.result.Allowed { // another denied
			st := p.quick.state(p.word, p.limit, now)
			p.result = p.limit.Test(&st, now, 0)
		}
		if p.loan != nil {
			p.loan.Answer(stint.Epoch{Began: p.known})
		}
	}
	return true, nil
}
