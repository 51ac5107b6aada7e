package sim

import (
	"cmp"
	"time"

	"stint"
	"stint/fleet/lease"
)

// node is a process of a mode. It has no time of its own: whatever it does it does in one
// of these calls, and sends by the place where it runs.
type node interface {
	// decide answers a request by world.answer, at once or later, or lets it fail.
	decide(q *request)
	// tick does what is due, and returns after how long it wants to be called again; 0:
	// never.
	tick() time.Duration
	// held returns how many units are here to be given out, for who looks.
	held() int64
}

// place is where a process runs, and another one once that has died.
type place struct {
	w       *world
	number  int
	born    int           // how many were here before
	is      node          // nil: it is dead
	known   stint.Instant // the epoch that its client of the store remembers
	resumes time.Duration // until then it stands still
	cut     time.Duration // until then it is cut off

	// Its clocks: what they showed at the true time since, and their rate.
	since      time.Duration
	mono, wall int64
	rate       float64

	to, from link          // the store
	links    map[int]*link // to other places
}

// link is one way that messages take.
type link struct{ sent, arrived int }

// start begins a process.
func (p *place) start() {
	p.known = 0
	switch {
	case p.w.Options.start != nil:
		p.is = p.w.Options.start(p)
	case p.w.Mode == Leased && p.w.Share != nil:
		p.is = newDivided(p)
	case p.w.Mode == Leased:
		p.is = newLeased(p)
	case p.w.Mode == Strict:
		p.is = &strict{p}
	case p.w.Mode == Eventual:
		p.is = newDeciding(p)
	case p.w.Mode == Gossip, p.w.Mode == Asking:
		p.is = newGossiping(p)
	default:
		p.is = &sticky{p, map[stint.Key]*stint.State{}}
	}
	is, first := p.is, time.Duration(p.w.r.Int64N(int64(p.w.every())))
	p.on(p.w.now+first, func() { p.tick(is) })
}

// every is about how often a process ticks; when it does first is chance.
func (w *world) every() time.Duration {
	if w.Mode.alone() {
		return cmp.Or(w.Interval, 100*time.Millisecond)
	}
	return 25 * time.Millisecond
}

// tick has a process do what is due, until all is over.
func (p *place) tick(is node) {
	if p.is != is || p.w.now > p.w.end+time.Second {
		return
	}
	if next := is.tick(); next > 0 {
		p.on(p.w.now+next, func() { p.tick(is) })
	}
}

// on does something here, once the process does not stand still.
func (p *place) on(t time.Duration, do func()) {
	p.w.at(t, func() {
		if p.resumes > p.w.now {
			p.on(p.resumes, do)
			return
		}
		do()
	})
}

// moment returns what the clocks show.
func (p *place) moment() lease.Moment {
	ran := int64(float64(p.w.now-p.since) * p.rate)
	return lease.Moment{Mono: p.mono + ran, Wall: p.wall + ran}
}

// wind sets the clocks to what they show, before something about them changes.
func (p *place) wind() {
	m := p.moment()
	p.mono, p.wall, p.since = m.Mono, m.Wall, p.w.now
}

// holds returns 1 where there is anything to be given out here, for counts.
func (p *place) holds() int {
	if p.is == nil || p.is.held() == 0 {
		return 0
	}
	return 1
}

// sleep lets the process stand still, and with the machine the clock that nobody sets.
func (p *place) sleep(d time.Duration, machine bool) {
	if d > stint.LeaseTime {
		p.w.seen.Slept += p.holds()
	}
	p.wind()
	p.resumes = max(p.resumes, p.w.now+d)
	if machine { // its wall clock has gone on when it wakes up
		p.mono -= int64(d)
	}
}

// kill ends the process. Another one starts after a while.
func (p *place) kill(after time.Duration) {
	p.w.seen.Killed += p.holds()
	p.born++
	p.is = nil
	born := p.born
	p.w.at(p.w.now+after, func() {
		if p.is == nil && p.born == born {
			p.resumes = p.w.now
			p.start()
		}
	})
}
