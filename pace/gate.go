package pace

import (
	"time"

	"stint"
)

// gate is what a Pacer was told from outside: its own limit is not all that counts.
type gate struct {
	until time.Time // nothing passes before

	passed uint64        // units so far
	budget uint64        // how far passed may go
	bounds time.Time     // until when
	moved  chan struct{} // closed when any of this is another

	patience time.Duration // how long a probe is waited for; 0: none is sent
	paused   bool          // whether there was a pause whose end nobody has seen
	bounded  bool          // the same of a budget
	probing  bool          // whether the budget is that of a probe
	before   uint64        // what had passed before the probe
}

// stir makes whoever waits at the gate look again.
func (g *gate) stir() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// turn sees the end of a pause, and of a budget that was used up: one unit may pass.
func (g *gate) turn(now time.Time) {
	if now.Before(g.until) {
		return
	}
	ended := g.paused
	if g.bounded && !now.Before(g.bounds) {
		ended = ended || g.left() == 0
		g.bounded = false
	}
	g.paused = false
	if ended && g.patience > 0 {
		g.probing, g.before = true, g.passed
		g.budget, g.bounds, g.bounded = g.passed+1, now.Add(g.patience), false
	}
}

// closed returns how long the gate is closed to cost units.
func (g *gate) closed(now time.Time, cost uint32) time.Duration {
	g.turn(now)
	wait := g.until.Sub(now)
	if g.paused && g.patience > 0 {
		return max(wait, 0) // a probe follows, whatever the budget was
	}
	if now.Before(g.bounds) && uint64(cost) > g.left() {
		wait = max(wait, g.bounds.Sub(now))
	}
	return max(wait, 0)
}

// left returns what is left of the budget.
func (g *gate) left() uint64 { return g.budget - min(g.budget, g.passed) }

// Pause lets nothing pass for d from now: another side that keeps the same limit said
// so, such as a server by Retry-After. A pause is never shortened by a later one. It
// holds in this process; Force alone does not stop for it, and adds it to its wait.
func (p *Pacer) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.gate.until) {
		p.gate.until = until
	}
	p.gate.paused, p.gate.probing = true, false
	p.gate.stir()
}

// Probe makes the end of a pause, and of a budget that was used up, let one unit pass
// and no more until Budget or Pause says what came of it: whoever waited does not rush
// to the other side all at once. After patience without a word the gate is open to all.
// 0, which is how a Pacer begins, opens it at once.
func (p *Pacer) Probe(patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.patience = patience
}

// Probing says whether a probe may pass or is under way, and how many units had passed
// before it, as counted by Passed.
func (p *Pacer) Probing() (before uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.gate
	return g.before, g.probing && time.Now().Before(g.bounds)
}

// Paused returns how long the pacer is still paused.
func (p *Pacer) Paused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.gate.until))
}

// Budget lets units pass only until total of them have passed since [New], as counted
// by Passed, for the next d and whatever the limit says: another side that keeps the
// same limit said how much it has left. It takes the place of the budget before. Who
// waits for a budget is not refused for its deadline, because the next answer may bring
// a larger one.
//
// The bound is a total because what the other side says is of the past: if it had n
// left when it had answered k units, then k+n may pass, however many are on their way.
func (p *Pacer) Budget(total uint64, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.budget, p.gate.bounds = total, time.Now().Add(d)
	p.gate.bounded, p.gate.probing = true, false
	p.gate.stir()
}

// Passed returns how many units this pacer has let pass.
func (p *Pacer) Passed() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.passed
}

// held returns how long the gate is closed to cost units.
func (p *Pacer) held(cost uint32) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.closed(time.Now(), cost)
}

// withinGate returns how many of n units the budget lets pass.
func (p *Pacer) withinGate(n uint32) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.gate.turn(now)
	if now.Before(p.gate.bounds) {
		return uint32(min(uint64(n), p.gate.left()))
	}
	return n
}

// spent counts what passed.
func (p *Pacer) spent(d *stint.Decision, cost uint32) {
	if !d.Allowed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.passed += uint64(cost)
}
