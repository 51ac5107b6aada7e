package facts

import (
	"time"

	"stint"
	"stint/facts/sketch"
	"stint/internal/limits"
)

const (
	// peaksKeep is how long peaks are measured before a new measurement begins. The one before it is
	// shown too, so that what is shown covers one to two times as long.
	peaksKeep = 7 * 24 * time.Hour

	// allTracked and mostTracked are the most keys of samples: of all rules together, and of one.
	allTracked  = 1 << 16
	mostTracked = 512
	leastSample = 64

	// burstGap is the time without a request after which another one begins a burst, and how long the
	// burst lasts.
	burstGap = stint.Instant(time.Second / time.Microsecond)
)

// event is a request of a key of a sample.
type event struct {
	rule             *ruleFacts
	limit            *stint.Limit
	hash             uint64
	at               stint.Instant
	reset            time.Duration
	capacity, remain int64
	cost             uint32
	allowed          bool
}

// addEvent notes a request of a key of a sample, if there is room.
func (n *notes) addEvent(d *noted) {
	if len(n.events) == cap(n.events) {
		return
	}
	a := d.a
	n.events = append(n.events, event{
		rule: d.rule, limit: a.Rule.Limit, hash: d.hash, at: a.At, reset: a.ResetAfter,
		capacity: a.Limit, remain: a.Remaining, cost: a.Cost, allowed: a.Allowed,
	})
}

// tracked is what is known of a key of a sample.
type tracked struct {
	start         stint.Instant // of its period; 0: none has begun
	length        stint.Instant
	asked, denied uint64 // units of the period
	use           float64

	largest     float64 // of all finished periods
	finished    bool    // a period has finished
	everDenied  bool
	last        stint.Instant // its last request
	lastDenied  stint.Instant // its last request, if that was denied
	burst       stint.Instant // its last request after a second of silence
	burstBefore float64       // units that passed in the minute before
	minute      sketch.Minute // units that passed
}

// measured are the peaks of one span of time.
type measured struct {
	Since   time.Time        `json:"since"`
	Periods uint64           `json:"periods"`
	First   uint64           `json:"first"`
	Shares  sketch.Histogram `json:"shares"`
	Denials [10]uint64       `json:"denials"`
	Retries uint64           `json:"retries"`
	Passed  uint64           `json:"passed"`
	Bursts  uint64           `json:"bursts"`

	// Keys, Denied, Excess and Largest are of tracked keys.
	Keys    uint64           `json:"keys"`
	Denied  uint64           `json:"denied"`
	Excess  sketch.Histogram `json:"excess"`
	Largest sketch.Histogram `json:"largest"`
}

// add adds the peaks of another span or node.
func (m *measured) add(other *measured) {
	if m.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(m.Since) {
		m.Since = other.Since
	}
	m.Periods += other.Periods
	m.First += other.First
	m.Retries += other.Retries
	m.Passed += other.Passed
	m.Bursts += other.Bursts
	m.Keys += other.Keys
	m.Denied += other.Denied
	m.Shares.Add(&other.Shares)
	m.Excess.Add(&other.Excess)
	m.Largest.Add(&other.Largest)
	for i := range m.Denials {
		m.Denials[i] += other.Denials[i]
	}
}

// peaks measures how close keys come to the limit of a rule.
type peaks struct {
	limit       string      // in words
	level       uint8       // one in 2^level keys are in the sample
	thin        sketch.Rate // of their requests
	keys        map[uint64]*tracked
	now, before measured
}

// observe adds a request.
func (p *peaks) observe(e *event, most int) {
	spec := e.limit.Spec()
	if spec.Per <= 0 || e.limit.Algorithm() == stint.Unlimited || e.at <= 0 {
		return
	}
	t := p.keys[e.hash]
	if t == nil {
		if p.keys == nil {
			p.keys = map[uint64]*tracked{}
		}
		for len(p.keys) >= most && p.level < 31 {
			p.raise()
		}
		if uint32(e.hash) > uint32(sketch.Threshold(p.level)) {
			return
		}
		t = &tracked{}
		p.keys[e.hash] = t
	}
	weight := uint64(e.cost) << p.thin.Bits
	whole, most64 := limits.Span(&spec)
	length := stint.Instant(whole / time.Microsecond)
	if start := startOf(e, &spec, length, t); start != t.start {
		p.finish(t)
		t.start, t.length = start, length
	}
	t.minute.Advance(int64(e.at))
	if e.at-t.last >= burstGap || t.last-e.at >= burstGap { // the clock may be set back
		t.burst, t.burstBefore = e.at, t.minute.Last(int64(e.at))
	}
	t.asked += weight
	if e.allowed {
		t.minute.Add(weight)
	} else {
		t.denied += weight
		p.observeDenial(t, e, &spec)
	}
	if p.thin.Bits == 0 && t.lastDenied > 0 && e.at-t.lastDenied <= length {
		p.now.Retries++
		if e.allowed {
			p.now.Passed++
		}
	}
	t.last, t.lastDenied = e.at, 0
	if !e.allowed {
		t.lastDenied = e.at
	}
	share := float64(t.asked) / most64
	if e.capacity > 0 && e.capacity != stint.NoLimit {
		share = max(share, (float64(e.capacity-e.remain)+float64(t.denied))/float64(e.capacity))
	}
	t.use = max(t.use, share)
}

// observeDenial adds the denial of a request by its place in the period.
func (p *peaks) observeDenial(t *tracked, e *event, spec *stint.Spec) {
	t.everDenied = true
	tenth := (e.at - t.start) * 10 / max(t.length, 1)
	p.now.Denials[min(max(tenth, 0), 9)] += 1 << p.thin.Bits
	average := float64(spec.Requests) / spec.Per.Minutes()
	if e.at-t.burst <= burstGap && t.burstBefore < average/2 {
		p.now.Bursts += 1 << p.thin.Bits
	}
}

// startOf returns the start of the period of a request. A fixed window says when it ends; for others
// a period begins with the first request after the one before, or after the clock was set back.
func startOf(e *event, spec *stint.Spec, length stint.Instant, t *tracked) stint.Instant {
	if spec.Algorithm == stint.FixedWindow && !spec.FromFirst {
		return e.at - e.at%max(length, 1)
	}
	if t.start > 0 && t.length == length && e.at < t.start+length && e.at > t.start-burstGap {
		return t.start
	}
	return e.at
}

// finish ends the period of a key.
func (p *peaks) finish(t *tracked) {
	if t.start == 0 {
		return
	}
	p.now.Periods++
	if !t.finished {
		p.now.First++
	}
	p.now.Shares.Observe(t.use)
	t.largest, t.finished = max(t.largest, t.use), true
	t.start, t.asked, t.denied, t.use = 0, 0, 0, 0
}

// finishAll ends the periods that ended before now.
func (p *peaks) finishAll(now stint.Instant) {
	for _, t := range p.keys {
		if t.start > 0 && t.start+t.length <= now {
			p.finish(t)
		}
	}
}

// raise halves the keys of the sample.
func (p *peaks) raise() {
	p.level++
	for hash := range p.keys {
		if uint32(hash) > uint32(sketch.Threshold(p.level)) {
			delete(p.keys, hash)
		}
	}
}

// adjust changes the sample so that a rule has at most so many events between two flushes: fewer keys as long
// as there are enough, then fewer requests.
func (p *peaks) adjust(most int) {
	if p.thin.Notes > most && len(p.keys) > leastSample && p.level < 31 {
		p.raise()
		p.thin.Notes = 0
		return
	}
	p.thin.Adjust(most)
}

// ageLocked begins a new measurement after some days.
func (p *peaks) ageLocked(now time.Time) {
	if p.now.Since.IsZero() {
		p.now.Since = now
	}
	p.finishAll(stint.At(now))
	if now.Sub(p.now.Since) < peaksKeep {
		return
	}
	*p = peaks{limit: p.limit, before: p.current(), now: measured{Since: now}}
}

// current returns the present measurement with the numbers of its keys. It shares no memory with what is
// measured on.
func (p *peaks) current() (m measured) {
	m.add(&p.now)
	for _, t := range p.keys {
		if t.finished {
			m.Keys++
		}
		if t.finished || t.everDenied {
			m.Largest.Observe(max(t.largest, t.use))
		}
		if t.everDenied {
			m.Denied++
			m.Excess.Observe(max(t.largest, t.use))
		}
	}
	return m
}

// shown returns the measurement as it is shown.
func (m *measured) shown() Peaks {
	return Peaks{
		Since: m.Since, Sampled: m.Keys, Periods: m.Periods, FirstPeriods: m.First,
		P50: m.Shares.Quantile(0.5), P90: m.Shares.Quantile(0.9), P99: m.Shares.Quantile(0.99), P999: m.Shares.Quantile(0.999),
		KeyP99:     m.Largest.Quantile(0.99),
		DeniedKeys: m.Denied, Excess: m.Excess.Quantile(0.5), Denials: m.Denials,
		Retries: m.Retries, Passed: m.Passed, Bursts: m.Bursts,
	}
}
