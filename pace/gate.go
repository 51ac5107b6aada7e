package pace

import (
	"time"

	"stint"
)

// gate is what a Pacer was told from outside: its own limit is not all that counts.
type gate struct {
	until time.Time // nothing passes before

	left   uint32 // so many units may pass
	bounds time.Time
}

// closed returns how long the gate is closed to cost units.
func (g *gate) closed(now time.Time, cost uint32) time.Duration {
	wait := g.until.Sub(now)
	if now.Before(g.bounds) && cost > g.left {
		wait = max(wait, g.bounds.Sub(now))
	}
	return max(wait, 0)
}

// Pause lets nothing pass for d from now: another side that keeps the same limit said
// so, such as a server by Retry-After. A pause is never shortened by a later one. It
// holds in this process; Force alone does not stop for it, and adds it to its wait.
func (p *Pacer) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.gate.until) {
		p.gate.until = until
	}
}

// Paused returns how long the pacer is still paused.
func (p *Pacer) Paused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.gate.until))
}

// Budget lets at most n units pass in the next d, whatever the limit says: another
// side that keeps the same limit said how much it has left. It takes the place of the
// budget before. Who waits for a budget is not refused for its deadline, because the
// next answer may bring a larger one.
func (p *Pacer) Budget(n uint32, d time.Duration) {
	p.mu.Lock()
	p.gate.left, p.gate.bounds = n, time.Now().Add(d)
	p.mu.Unlock()
	p.stir()
}

// Left returns what is left of the budget, and for how long it counts; 0 and 0 where
// there is none.
func (p *Pacer) Left() (n uint32, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d = time.Until(p.gate.bounds); d <= 0 {
		return 0, 0
	}
	return p.gate.left, d
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
	if time.Now().Before(p.gate.bounds) {
		return min(n, p.gate.left)
	}
	return n
}

// spent takes what passed out of the budget.
func (p *Pacer) spent(d *stint.Decision, cost uint32) {
	if !d.Allowed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.left -= min(p.gate.left, cost)
}
