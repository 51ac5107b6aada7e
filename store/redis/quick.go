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

// quickScript decides token buckets that fill steadily; see lua/quick.lua. Everything
// else, and what it cannot read, is left to decide.lua.
var quickScript = rueidis.NewLuaScript(quickSource)

// oneScript decides one take by itself; see lua/one.lua.
var oneScript = rueidis.NewLuaScript(oneSource)

// quickForm are the numbers of a limit for quick.lua.
type quickForm struct {
	head, charge, full string
	units              uint64 // the charge as a number
}

// execQuick has the token buckets of batches decided by the script that suits their number.
func execQuick(ctx context.Context, client rueidis.Client, group []*passenger) rueidis.RedisResult {
	if b := group[0].batch; len(group) == 1 && len(b.parts) == 1 {
		p := &b.parts[0]
		units := uint64(maxUnits)
		if p.cost <= uint64(p.limit.Most()) {
			units = p.cost * p.quick.units
		}
		return oneScript.Exec(ctx, client, []string{p.name}, []string{p.quick.head, number(int64(units)), p.quick.full})
	}
	var q quickArgs
	for _, p := range group {
		q.add(p.batch)
	}
	return quickScript.Exec(ctx, client, q.keys, q.words())
}

// maxUnits is above the capacity of every bucket.
const maxUnits = 1 << 52

// newQuickForm returns the numbers of a limit, nil where quick.lua cannot decide it.
func newQuickForm(limit *stint.Limit, head string) *quickForm {
	s := limit.Spec()
	if s.Algorithm != stint.TokenBucket || s.Step || s.Hold || s.Overdraw || s.Requests == 0 {
		return nil
	}
	per, requests := s.Per.Microseconds(), int64(s.Requests)
	charge := (per + requests - 1) / requests
	return &quickForm{head + "|", strconv.FormatInt(charge, 10), strconv.FormatInt(charge*limit.Most(), 10), uint64(charge)}
}

// isQuick says whether quick.lua can decide the whole batch.
func (b *batch) isQuick() bool {
	if b.at != 0 || len(b.groups) == 0 || len(b.parts) > maxTogether || b.only >= 0 || b.mode != modeDecide {
		return false
	}
	for i := range b.parts {
		if p := &b.parts[i]; p.quick == nil || p.op != stint.Ask || p.lends > 0 {
			return false
		}
	}
	return true
}

// quickArgs are the words of several batches for quick.lua.
type quickArgs struct {
	limits []*form
	keys   []string
	runs   []run
}

// run is so many keys that are asked the same.
type run struct {
	limit int64 // its place, from 1; negative: the next key is of the same group
	cost  uint64
	n     int64
}

// add adds a batch.
func (q *quickArgs) add(b *batch) {
	for i := range b.groups {
		g := &b.groups[i]
		for j := g.first; j < g.end; j++ {
			p := &b.parts[j]
			limit := q.place(p.form)
			if j < g.end-1 {
				limit = -limit
			}
			q.keys = append(q.keys, p.name)
			if last := len(q.runs) - 1; last >= 0 && q.runs[last].limit == limit && q.runs[last].cost == p.cost {
				q.runs[last].n++
			} else {
				q.runs = append(q.runs, run{limit, p.cost, 1})
			}
		}
	}
}

// place returns the place of a limit, from 1. Limits with the same numbers are one.
func (q *quickArgs) place(f *form) int64 {
	for i, known := range q.limits {
		if known == f || known.head == f.head {
			return int64(i + 1)
		}
	}
	q.limits = append(q.limits, f)
	return int64(len(q.limits))
}

// words returns all arguments.
func (q *quickArgs) words() []string {
	words := make([]string, 0, 1+3*len(q.limits)+3*len(q.runs))
	words = append(words, number(int64(len(q.limits))))
	for _, f := range q.limits {
		words = append(words, f.quick.head, f.quick.charge, f.quick.full)
	}
	for _, r := range q.runs {
		words = append(words, number(r.limit), number(int64(min(r.cost, maxCost))), number(r.n))
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

// readQuick works out the decisions from the states that were found; false where
// decide.lua has to be asked about some group. It is right because the script does what
// stint.Limit.Take does.
func (b *batch) readQuick(now stint.Instant, found []message) (done bool, err error) {
	done = true
	for i := range b.groups {
		g := &b.groups[i]
		parts := b.parts[g.first:g.end]
		pass, known := true, true
		for j := range parts {
			p := &parts[j]
			if p.word, err = found[g.first+j].AsInt64(); err != nil {
				return false, errReply
			}
			if p.word < 0 {
				known = false
				break
			}
			p.limit.TakeWord(uint64(p.word), now, p.cost, &p.result)
			pass = pass && p.result.Allowed
		}
		if !known {
			done = false
			continue
		}
		g.done = true
		if pass {
			continue
		}
		for j := range parts {
			p := &parts[j]
			if p.result.Allowed { // another denied
				p.limit.TakeWord(uint64(p.word), now, 0, &p.result)
			}
		}
	}
	return done, nil
}
