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
	shard := uint64(uintptr(unsafe.Pointer(v))) * golden >> f.shift
	b := f.board.Load()
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Rule == nil {
			continue
		}
		var r *ruleFacts
		if at := uint(a.Rule.Index); at < uint(len(b.rules)) && b.rules[at] == a.Rule {
			r = b.byIndex[at]
		} else if r = b.of(a.Rule); r == nil {
			continue
		}
		if a.Cost == 0 {
			r.cells[shard].looks.Add(1)
			continue
		}
		t := v.Take(i)
		if f.counted == nil {
			r.cells[shard].count(a, t)
		}
		if t == nil || !t.Op.Asks() {
			continue
		}
		hash := f.seed.Sum(0, string(t.Key))
		if seen := r.seen.Load(); seen == nil || !seen.Counted(hash) {
			r.distinct().Add(hash)
		}
		// Verdicts are reused, or else time goes on: dice is another number each time, and spreads evenly.
		dice := (v.Turn() + hash + uint64(a.At)) * golden
		if r.sample.Counted(a.Allowed, dice) || r.sample.Detailed(hash, dice) {
			f.noteKey(r, shard, v, i, hash, dice)
		}
	}
	if len(v.Candidates) > 0 {
		f.countCandidates(b, v)
	}
	if !v.Allowed && len(v.Asked) == 0 {
		f.noteRefusal(b, shard, v)
	}
}

// DecidedBatch notes how long a batch took, in which no rule has a part; see limiter.BatchObserver.
func (f *Facts) DecidedBatch(_ *limiter.Batch, took time.Duration, _ error) {
	if took >= 0 {
		f.latency.Observe(took)
	}
}

// noteKey leaves a note about the key of a decision.
func (f *Facts) noteKey(r *ruleFacts, shard uint64, v *limiter.Verdict, i int, hash, dice uint64) {
	a, s := &v.Asked[i], &r.sample
	f.note(shard, noted{r, hash, v.Take(i).Key, v, a, s.Bits(a.Allowed), s.Counted(a.Allowed, dice), s.Detailed(hash, dice)})
}

// count adds a decision to the counters.
func (c *cell) count(a *limiter.Asked, t *stint.Take) {
	if t != nil && !t.Op.Asks() {
		return
	}
	if a.Degraded {
		c.degraded.Add(1)
	}
	if a.Over {
		c.over.Add(1)
	}
	if a.Allowed {
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
