package redis

import (
	"context"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/script"
)

// otherEpoch is what quick.lua says of all keys where another epoch is in force than it was
// told, or one before which another was lost.
const otherEpoch = -2

// maxUnits is above the capacity of everything, maxState the largest number that is read as a
// state, whoever wrote it.
const (
	maxUnits = 1 << 52
	maxState = 1 << 53
)

// units returns what a part takes, in the measure of its limit.
func (p *part) units() int64 {
	if p.cost > uint64(p.Limit.Capacity()) {
		return maxUnits
	}
	return int64(p.cost * p.Quick.Charge)
}

// most returns what a part's key may have used once it took its units. If those are none that is
// anything in a window, and in a bucket what it holds: more is for decide.lua, see early.
func (p *part) most() int64 {
	units := p.units()
	switch {
	case units == 0 && p.Quick.Per > 0:
		return maxState
	case units == 0:
		return p.Quick.Full
	}
	return min(p.Quick.Full, p.Quick.Wait+units)
}

// isQuick says whether quick.lua can decide the whole batch.
func (b *batch) isQuick() bool {
	if len(b.groups) == 0 || len(b.parts) > maxTogether || b.only >= 0 || b.mode != modeDecide {
		return false
	}
	b.epoch, b.known = "", 0
	for i := range b.parts {
		p := &b.parts[i]
		if p.Quick == nil || p.op != stint.Ask || p.borrows > 0 || p.isSource || p.loan != nil && !p.cold {
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
			if b.parts[i].name == b.parts[j].name && b.parts[i].Head != b.parts[j].Head {
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

// isFew says whether one.lua or few.lua can decide a group of batches.
func isFew(group []*waiter) bool {
	b := group[0].batch
	if len(group) > 1 || len(b.groups) > 1 || b.at != 0 || b.epoch != "" {
		return false
	}
	for i := range b.parts {
		if b.parts[i].Quick.Per > 0 {
			return false
		}
	}
	return true
}

// few returns the script that decides the takes of a lone batch, and what it is called with.
func (b *batch) few(renew bool) (lua *rueidis.Lua, keys, words []string) {
	keys = make([]string, len(b.parts))
	for i := range b.parts {
		keys[i] = b.parts[i].name
	}
	if len(b.parts) == 1 {
		return oneScript, keys, b.wordsOfOne(renew)
	}
	return fewScript, keys, b.wordsOfFew(renew)
}

// readFew reads the answer of that script.
func (b *batch) readFew(answer rueidis.RedisResult) error {
	numbers, err := readNumbers(answer, 1+len(b.parts))
	if err != nil {
		return err
	}
	b.found = stint.Instant(numbers[0])
	for i := range b.parts {
		b.parts[i].word = numbers[1+i]
	}
	return nil
}

// wordsOfOne returns the arguments of one.lua.
func (b *batch) wordsOfOne(renew bool) []string {
	p := &b.parts[0]
	words := []string{p.Quick.Head, script.Number(p.units()), script.Number(p.most()), p.Quick.Place}
	if renew {
		words[3] = ""
	}
	return words
}

// wordsOfFew returns the arguments of few.lua.
func (b *batch) wordsOfFew(renew bool) []string {
	words := make([]string, 1, 1+len(b.parts))
	bytes := script.Doubles(make([]byte, 0, 16*(1+len(b.parts))), b.spare(), script.Flag(renew))
	for i := range b.parts {
		p := &b.parts[i]
		bytes = script.Doubles(bytes, p.units(), p.most())
		words = append(words, p.Quick.Head)
	}
	words[0] = string(bytes)
	return words
}

// execQuick has a group of batches decided by quick.lua, as far as it can: it writes the
// time to batch.found, and the states that were found to part.word. renew is as send says.
func execQuick(ctx context.Context, client rueidis.Client, group []*waiter, renew bool) error {
	m := manifests.Get().(*manifest)
	defer m.release()
	for _, p := range group {
		m.add(p.batch)
	}
	keys := m.keys(group[0].batch)
	numbers, err := readNumbers(quickScript.Exec(ctx, client, keys, m.words(group[0].batch, renew)), 1+m.alone+len(m.merged))
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
		st := p.Quick.State(p.word, b.found)
		if p.Quick.Early(st, b.found) && p.cost <= uint64(p.Limit.Capacity()) {
			return false // which a look or a denied take corrects
		}
		p.result = p.Limit.Take(&st, b.found, p.cost)
		pass = pass && p.result.Allowed
	}
	for i := range parts {
		p := &parts[i]
		if !pass && p.result.Allowed { // another denied
			st := p.Quick.State(p.word, b.found)
			p.result = p.Limit.Test(&st, b.found, 0)
		}
		if p.loan != nil {
			p.loan.Answer(stint.Epoch{Began: p.known})
		}
	}
	return true
}
