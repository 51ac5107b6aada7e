package redis

import (
	"context"
	_ "embed" // the scripts
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
	head       string
	place      string // of the digits behind the head
	full, wait int64
	charge     uint64 // of one unit
	window     bool
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
		charge, wait = 1, -per
	default:
		return nil
	}
	return &quickForm{
		head: head + "|", place: strconv.Itoa(len(head) + 1), full: charge * limit.Most(), wait: wait,
		charge: uint64(charge), window: s.Algorithm == stint.FixedWindow,
	}
}

// units returns what a part takes, in the measure of its limit.
func (p *part) units() int64 {
	if p.cost > uint64(p.limit.Most()) {
		return maxUnits
	}
	return int64(p.cost * p.quick.charge)
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
	return b.at == other.at && b.fixed == other.fixed && b.epoch == other.epoch && b.known == other.known
}

// isOne says whether one.lua can decide a group of batches.
func isOne(group []*passenger) bool {
	b := group[0].batch
	return len(group) == 1 && len(b.parts) == 1 && b.at == 0 && b.epoch == "" && b.parts[0].limit.Algorithm() == stint.TokenBucket
}

// execOne has a lone take decided.
func execOne(ctx context.Context, client rueidis.Client, b *batch, renew bool) error {
	p := &b.parts[0]
	words := []string{p.quick.head, number(p.units()), number(p.quick.full), p.quick.place}
	if renew {
		words[3] = ""
	}
	numbers, err := readNumbers(oneScript.Exec(ctx, client, []string{p.name}, words), 2)
	if err != nil {
		return err
	}
	b.found, p.word = stint.Instant(numbers[0]), numbers[1]
	return nil
}

// execQuick has a group of batches decided by quick.lua, as far as it can: it writes the
// time to batch.found, and the states that were found to part.word. renew is as fly says.
func execQuick(ctx context.Context, client rueidis.Client, group []*passenger, renew bool) error {
	m := manifests.Get().(*manifest)
	defer m.release()
	for _, p := range group {
		m.add(p.batch)
	}
	keys := m.keys(group[0].batch)
	numbers, err := readNumbers(quickScript.Exec(ctx, client, keys, m.words(group[0].batch, renew)), 1+m.alone+len(m.rides))
	if err != nil {
		return err
	}
	for i := range m.alone {
		m.stops[m.order[i]].word = numbers[1+i]
	}
	for _, p := range group {
		p.batch.found = stint.Instant(numbers[0])
		m.read(p.batch, numbers[1+m.alone:])
	}
	return nil
}

// readNumbers reads an answer of so many numbers.
func readNumbers(answer rueidis.RedisResult, n int) ([]int64, error) {
	if err := answer.Error(); err != nil {
		return nil, err
	}
	numbers, err := answer.AsIntSlice()
	if err != nil || len(numbers) != n {
		return nil, errReply
	}
	return numbers, nil
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

// readQuick works out the decisions from the states that were found; false where
// decide.lua has to be asked about some group. It is right because the script does what
// stint.Limit.Take does.
func (b *batch) readQuick() (done bool) {
	done = true
	for i := range b.groups {
		g := &b.groups[i]
		g.done = b.answerQuick(b.parts[g.first:g.end])
		done = done && g.done
	}
	return done
}

// answerQuick answers the parts of a group; false if some state could not be read.
func (b *batch) answerQuick(parts []part) (known bool) {
	pass := true
	for i := range parts {
		p := &parts[i]
		if p.word < 0 {
			return false
		}
		st := p.quick.state(p.word, p.limit, b.found)
		p.result = p.limit.Take(&st, b.found, p.cost)
		pass = pass && p.result.Allowed
	}
	for i := range parts {
		p := &parts[i]
		if !pass && p.result.Allowed { // another denied
			st := p.quick.state(p.word, p.limit, b.found)
			p.result = p.limit.Test(&st, b.found, 0)
		}
		if p.loan != nil {
			p.loan.Answer(stint.Epoch{Began: p.known})
		}
	}
	return true
}
