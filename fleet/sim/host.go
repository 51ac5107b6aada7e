package sim

import (
	"cmp"
	"time"

	"stint"
	"stint/fleet/lease"
)

// node is a process of a mode. It has no clock of its own. It acts only in these calls, and sends
// messages through its host.
type node interface {
	// decide answers a request by world.answer, at once or later, or lets it fail.
	decide(q *request)
	// tick does what is due and returns the time until the next tick; 0: never.
	tick() time.Duration
	// held returns how many units or keys the process holds, for statistics.
	held() int64
}

// host is a machine that runs a process, and after its death the next one.
type host struct {
	w            *world
	number       int
	restarts     int           // number of processes before this one
	node         node          // nil: the process is dead
	known        stint.Instant // epoch that its store client knows
	stoppedUntil time.Duration // the process stands still until then
	cutUntil     time.Duration // no message passes until then

	// What the clocks showed at the true time since, and their rate.
	since      time.Duration
	mono, wall int64
	rate       float64

	to, from link          // to and from the store
	links    map[int]*link // to other hosts
}

// link counts the messages in one direction.
type link struct{ sent, arrived int }

// start starts a process.
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

// every is about the time between two ticks, to choose the first one at random.
func (w *world) every() time.Duration {
	if w.Mode.alone() {
		return cmp.Or(w.Interval, 100*time.Millisecond)
	}
	return 25 * time.Millisecond
}

// tick ticks the process until the end of the history.
func (p *host) tick(is node) {
	if p.node != is || p.w.now > p.w.end+time.Second {
		return
	}
	if next := is.tick(); next > 0 {
		p.on(p.w.now+next, func() { p.tick(is) })
	}
}

// on calls do at a time, or later when the process no longer stands still.
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

// freezeClocks stores what the clocks show, before their rate or offset changes.
func (p *host) freezeClocks() {
	m := p.moment()
	p.mono, p.wall, p.since = m.Mono, m.Wall, p.w.now
}

// holdsUnits returns 1 if the process has any units, for counting.
func (p *host) holdsUnits() int {
	if p.node == nil || p.node.held() == 0 {
		return 0
	}
	return 1
}

// sleep stops the process for a time and, with machine, its monotonic clock.
func (p *host) sleep(d time.Duration, machine bool) {
	if d > stint.LeaseTime {
		p.w.seen.Slept += p.holdsUnits()
	}
	p.freezeClocks()
	p.stoppedUntil = max(p.stoppedUntil, p.w.now+d)
	if machine { // the wall clock continues while the machine sleeps
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
