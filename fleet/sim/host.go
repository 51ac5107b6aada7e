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

// host is where a process runs, and another one once that has died.
type host struct {
	w            *world
	number       int
	restarts     int           // how many were here before
	node         node          // nil: it is dead
	known        stint.Instant // the epoch that its client of the store remembers
	stoppedUntil time.Duration // until then it stands still
	cutUntil     time.Duration // until then it is cut off

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
func (p *host) start() {
	p.known = 0
	switch {
	case p.w.Options.start != nil:
		p.node = p.w.Options.start(p)
	case p.w.Mode == Leased && p.w.Share != nil:
		p.node = newQuotaNode(p)
	case p.w.Mode == Leased:
		p.node = newLeaseNode(p)
	case p.w.Mode == Strict:
		p.node = &strictNode{p}
	case p.w.Mode == Eventual:
		p.node = newEventualNode(p)
	case p.w.Mode == Gossip, p.w.Mode == Asking:
		p.node = newGossipNode(p)
	default:
		p.node = &stickyNode{p, map[stint.Key]*stint.State{}}
	}
	is, first := p.node, time.Duration(p.w.r.Int64N(int64(p.w.every())))
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
func (p *host) tick(is node) {
	if p.node != is || p.w.now > p.w.end+time.Second {
		return
	}
	if next := is.tick(); next > 0 {
		p.on(p.w.now+next, func() { p.tick(is) })
	}
}

// on does something here, once the process does not stand still.
func (p *host) on(t time.Duration, do func()) {
	p.w.at(t, func() {
		if p.stoppedUntil > p.w.now {
			p.on(p.stoppedUntil, do)
			return
		}
		do()
	})
}

// moment returns what the clocks show.
func (p *host) moment() lease.Moment {
	ran := int64(float64(p.w.now-p.since) * p.rate)
	return lease.Moment{Mono: p.mono + ran, Wall: p.wall + ran}
}

// freezeClocks sets the clocks to what they show, before something about them changes.
func (p *host) freezeClocks() {
	m := p.moment()
	p.mono, p.wall, p.since = m.Mono, m.Wall, p.w.now
}

// holdsUnits returns 1 where there is anything to be given out here, for counts.
func (p *host) holdsUnits() int {
	if p.node == nil || p.node.held() == 0 {
		return 0
	}
	return 1
}

// sleep lets the process stand still, and with the machine the clock that nobody sets.
func (p *host) sleep(d time.Duration, machine bool) {
	if d > stint.LeaseTime {
		p.w.seen.Slept += p.holdsUnits()
	}
	p.freezeClocks()
	p.stoppedUntil = max(p.stoppedUntil, p.w.now+d)
	if machine { // its wall clock has gone on when it wakes up
		p.mono -= int64(d)
	}
}

// kill ends the process. Another one starts after a while.
func (p *host) kill(after time.Duration) {
	p.w.seen.Killed += p.holdsUnits()
	p.restarts++
	p.node = nil
	born := p.restarts
	p.w.at(p.w.now+after, func() {
		if p.node == nil && p.restarts == born {
			p.stoppedUntil = p.w.now
			p.start()
		}
	})
}
