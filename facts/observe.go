package facts

import (
	"time"
	"unsafe"

	"stint"
	"stint/limiter"
)

// golden is 2^64 divided by the golden ratio. Products with it, and the fractions that counters times
// it have of 2^64, are spread evenly whatever period the traffic has.
const golden = 0x9e3779b97f4a7c15

// allowedEvery is of how many allowed decisions of a rule one is noted for its key.
const (
	allowedBits  = 4
	allowedEvery = 1 << allowedBits
)

// Decided counts a decision; see limiter.Observer.
func (f *Facts) Decided(v *limiter.Verdict, took time.Duration, err error) {
	if took >= 0 {
		f.latency.observe(took)
	}
	if err != nil {
		return
	}
	// Verdicts are reused by the goroutines of one processor, so that different processors mostly
	// use different shards.
	shard := uint64(uintptr(unsafe.Pointer(v))) * golden >> f.shift
	b := f.board.Load()
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Rule != nil {
			f.count(b, shard, v, i, a)
		}
	}
	if !v.Allowed && len(v.Asked) == 0 {
		f.noteRefusal(b, shard, v)
	}
}

// count counts the decision of one limit.
func (f *Facts) count(b *board, shard uint64, v *limiter.Verdict, i int, a *limiter.Asked) {
	r := b.of(a.Rule)
	if r == nil {
		return
	}
	c := &r.cells[shard]
	if a.Cost == 0 {
		c.looks.Add(1)
		return
	}
	t := v.Take(i)
	if t != nil && !t.Op.Asks() {
		return
	}
	if a.Degraded {
		c.degraded.Add(1)
	}
	counter := &c.allowed
	if !a.Allowed {
		counter = &c.denied
	}
	n := counter.Add(1)
	if a.Over {
		c.over.Add(1)
	}
	if t == nil {
		return
	}
	hash := f.seed.Sum(0, string(t.Key))
	seen := r.seen.Load()
	if seen == nil {
		seen = r.distinct()
	}
	seen.Add(hash)
	turn := n * golden
	detail := sampling(r.sample.Load()).has(hash, turn)
	if counted := !a.Allowed || turn>>(64-allowedBits) == 0; counted || detail {
		f.note(shard, noted{r, hash, t.Key, v, a, counted, detail})
	}
}

// noted is what a decision leaves for the background goroutine.
type noted struct {
	rule    *ruleFacts
	hash    uint64
	key     stint.Key
	v       *limiter.Verdict
	a       *limiter.Asked
	counted bool // in the lists of keys
	detail  bool // as one of a key of the sample
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
