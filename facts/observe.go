package facts

import (
	"time"
	"unsafe"

	"stint"
	"stint/limiter"
)

// golden is 2^64 divided by the golden ratio: products with it spread over all shards.
const golden = 0x9e3779b97f4a7c15

// Decided counts a decision; see limiter.Observer.
func (f *Facts) Decided(v *limiter.Verdict, took time.Duration, err error) {
	if took >= 0 {
		f.latency.Observe(took)
	}
	if err != nil {
		return
	}
	// Verdicts are reused by the goroutines of one processor, so that different processors mostly
	// use different shards.
	shard := f.shardOf(unsafe.Pointer(v))
	b := f.board.Load()
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Rule == nil {
			continue
		}
		if r := b.of(a.Rule); r != nil {
			if hash, dice, noted := f.count(r, shard, &a.Decision, a.Cost, v.Take(i), v.Turn()); noted {
				f.noteKey(r, shard, v, i, hash, dice)
			}
		}
	}
	if len(v.Candidates) > 0 {
		f.countCandidates(b, v)
	}
	if !v.Allowed && len(v.Asked) == 0 {
		f.noteRefusal(b, shard, v)
	}
}

// DecidedBatch counts the decisions of a batch that are by rules; see limiter.BatchObserver.
func (f *Facts) DecidedBatch(all *limiter.Batch, took time.Duration, err error) {
	if took >= 0 {
		f.latency.Observe(took)
	}
	if err != nil || all.Rule(0) == nil {
		return
	}
	shard, b := f.shardOf(unsafe.Pointer(all)), f.board.Load()
	for i := range all.Len() {
		if r := b.of(all.Rule(i)); r != nil {
			t := all.Take(i)
			if hash, dice, noted := f.count(r, shard, all.Decision(i), t.Cost, t, all.Turn(i)); noted {
				f.noteKey(r, shard, all.Verdict(i), 0, hash, dice)
			}
		}
	}
}

// shardOf returns a shard. Verdicts and batches are reused by the goroutines of one processor, so that different
// processors mostly use different shards.
func (f *Facts) shardOf(used unsafe.Pointer) uint64 { return uint64(uintptr(used)) * golden >> f.shift }

// count counts the decision of a limit; t is nil if the store was not asked. It reports whether the decision leaves a note.
func (f *Facts) count(r *ruleFacts, shard uint64, d *stint.Decision, cost uint32, t *stint.Take, turn uint64) (hash, dice uint64, noted bool) {
	if cost == 0 {
		r.cells[shard].looks.Add(1)
		return 0, 0, false
	}
	if f.counted == nil {
		r.cells[shard].count(d, t)
	}
	if t == nil || !t.Op.Asks() {
		return 0, 0, false
	}
	hash = f.seed.Sum(0, string(t.Key))
	if seen := r.seen.Load(); seen == nil || !seen.Counted(hash) {
		r.distinct().Add(hash)
	}
	// Verdicts are reused, or else time goes on: dice is another number each time, and spreads evenly.
	dice = (turn + hash + uint64(d.At)) * golden
	return hash, dice, r.sample.Counted(d.Allowed, dice) || r.sample.Detailed(hash, dice)
}

// noteKey leaves a note about the key of a decision.
func (f *Facts) noteKey(r *ruleFacts, shard uint64, v *limiter.Verdict, i int, hash, dice uint64) {
	a, s := &v.Asked[i], &r.sample
	f.note(shard, noted{r, hash, v.Take(i).Key, v, a, s.Bits(a.Allowed), s.Counted(a.Allowed, dice), s.Detailed(hash, dice)})
}

// count adds a decision to the counters.
func (c *cell) count(d *stint.Decision, t *stint.Take) {
	if t != nil && !t.Op.Asks() {
		return
	}
	if d.Degraded {
		c.degraded.Add(1)
	}
	if d.Over {
		c.over.Add(1)
	}
	if d.Allowed {
		c.allowed.Add(1)
	} else {
		c.denied.Add(1)
	}
}

// noted is what a decision leaves for the background goroutine.
type noted struct {
	rule    *ruleFacts
	hash    uint64
	key     stint.Key
	v       *limiter.Verdict
	a       *limiter.Asked
	bits    uint8 // it stands for 2^bits decisions
	counted bool  // in the lists of keys
	detail  bool  // as one of a key of the sample
}

// note leaves a note in a shard, or in another one if that is in use. It does not wait: if all are in
// use the note is lost.
func (f *Facts) note(first uint64, n noted) {
	for i := range uint64(2 * len(f.shards)) {
		s := &f.shards[(first+i)%uint64(len(f.shards))]
		if !s.busy.CompareAndSwap(false, true) {
			continue
		}
		if n.detail {
			s.filling.addEvent(&n)
		}
		if n.counted {
			s.filling.addKey(&n)
		}
		s.busy.Store(false)
		return
	}
}

// noteRefusal leaves a note of a request that a ban or a list denied, for the log of denials.
func (f *Facts) noteRefusal(b *board, first uint64, v *limiter.Verdict) {
	name, domain := string(v.Reason()), ""
	if v.Listed != nil {
		name = v.Listed.Name
	}
	if b.table != nil {
		if d := b.table.Domain(v.Domain); d != nil {
			domain = d.Name() // v.Domain may be memory that is used again
		}
	}
	hash := f.seed.Sum(1, name)
	for i := range uint64(2 * len(f.shards)) {
		s := &f.shards[(first+i)%uint64(len(f.shards))]
		if s.busy.CompareAndSwap(false, true) {
			s.filling.addRefusal(hash, v, name, domain)
			s.busy.Store(false)
			return
		}
	}
}
