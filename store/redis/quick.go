package redis

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// takes returns how many units the quick scripts take for a part.
func (p *part) takes() uint64 {
	if p.test {
		return 0
	}
	return p.cost
}

// units and most are [script.Quick.Units] and [script.Quick.Most] of a part.
func (p *part) units() int64 { return p.Quick.Units(p.takes()) }
func (p *part) most() int64  { return p.Quick.Most(p.units()) }

// isQuick reports whether quick.lua can decide the whole batch.
func (b *batch) isQuick() bool {
	if len(b.groups) == 0 || len(b.parts) > maxTogether || b.only >= 0 || b.mode == modeDenied {
		return false
	}
	b.process, b.quick = "", connect.PlainScripts
	for i := range b.parts {
		p := &b.parts[i]
		if p.Quick == nil || p.op != stint.Ask || p.borrows > 0 || p.isSource || p.meter != nil || p.durable != nil || p.loan != nil && p.quick == nil {
			return false
		}
		if !p.checks() {
			continue
		}
		if b.process != "" && b.quick != p.quick { // the epoch changed meanwhile
			return false
		}
		b.process, b.quick = p.keyPrefix+processKey, p.quick
	}
	return len(b.groups) == 1 || !b.renumbers() && !slices.ContainsFunc(b.groups, func(g group) bool { return g.instead > 0 })
}

// renumbers reports whether the batch has one key under limits of different numbers. Then each
// group must be decided before the next.
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

// quickWith reports whether two batches that quick.lua can decide may be in one group.
func (b *batch) quickWith(other *batch) bool {
	return b.at == other.at && b.notPresent == other.notPresent && b.quick == other.quick
}

// isFew reports whether one.lua or few.lua can decide a group of batches.
func isFew(group []*waiter) bool {
	b := group[0].batch
	if len(group) > 1 || len(b.groups) > 1 || b.at != 0 {
		return false
	}
	for i := range b.parts {
		if b.parts[i].Quick.Per > 0 {
			return false
		}
	}
	return true
}

// few returns the script for a lone batch that isFew accepts, with its keys and arguments.
func (b *batch) few(renew bool) (lua *rueidis.Lua, keys, words []string) {
	keys = make([]string, len(b.parts), len(b.parts)+1)
	for i := range b.parts {
		keys[i] = b.parts[i].name
	}
	if b.process != "" && !(len(b.parts) == 1 && b.parts[0].recent) {
		keys = append(keys, b.process)
	}
	if len(b.parts) == 1 {
		return b.quick.One, keys, b.parts[0].Quick.WordsOfOne(b.parts[0].takes(), renew)
	}
	return b.quick.Few, keys, b.wordsOfFew(renew)
}

// readFew reads the answer of the script that few returned.
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

// execQuick runs quick.lua for a group of batches. It stores the time in batch.found, and the
// states that the script found in part.word. For renew see roundTrip.
func execQuick(ctx context.Context, client rueidis.Client, group []*waiter, renew bool) error {
	m := manifests.Get().(*manifest)
	defer m.release()
	for _, p := range group {
		m.add(p.batch)
	}
	keys := m.keys(group[0].batch)
	numbers, err := readNumbers(group[0].batch.quick.Quick.Exec(ctx, client, keys, m.words(group[0].batch, renew)), 1+m.alone+len(m.merged))
	if err != nil {
		return err
	}
	for i := range m.alone {
		m.uses[m.order[i]].word = numbers[1+i]
	}
	for _, p := range group {
		p.batch.found = stint.Instant(numbers[0])
		m.read(p.batch, numbers[1+m.alone:])
	}
	return nil
}

// readNumbers reads an answer of n numbers.
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

// readQuick computes the decisions from the states that the script found. It reports whether it
// decided all groups; decide.lua decides the others. The decisions are right because the script
// does what stint.Limit.Take does.
func (b *batch) readQuick() (done bool) {
	done = true
	for i := range b.groups {
		g := &b.groups[i]
		g.done = b.answerQuick(b.parts[g.first:g.end])
		done = done && g.done
	}
	return done
}

// answerQuick computes the results of a group's parts. It returns false if decide.lua must decide
// the group.
func (b *batch) answerQuick(parts []part) (known bool) {
	pass := true
	for i := range parts {
		p := &parts[i]
		if p.word < 0 {
			return false
		}
		st := p.Quick.State(p.word, b.found)
		if p.Quick.Early(st, b.found) && p.cost <= uint64(p.Limit.Capacity()) {
			return false // decide.lua corrects such a state in a peek or a denied take
		}
		if p.test {
			p.result = p.Limit.Test(&st, b.found, p.cost)
			continue
		}
		p.result = p.Limit.Take(&st, b.found, p.cost)
		pass = pass && p.result.Allowed
	}
	for i := range parts {
		p := &parts[i]
		if !pass && p.result.Allowed { // another part denied
			st := p.Quick.State(p.word, b.found)
			p.result = p.Limit.Test(&st, b.found, 0)
		}
		if p.loan != nil {
			p.loan.Answer(stint.Epoch{Began: p.known})
		}
	}
	return true
}
