package pace

import (
	"time"

	"stint"
)

// gate holds the pauses and budgets set by the caller of a Pacer, in addition to the Pacer's own
// limit.
type gate struct {
	until time.Time // end of the pause

	passed uint64        // units passed so far
	budget uint64        // maximum of passed
	bounds time.Time     // end of the budget
	moved  chan struct{} // closed when any of these change

	patience time.Duration // time to wait for the result of a probe; 0: no probes
	paused   bool          // there was a pause whose end turn has not handled yet
	bounded  bool          // the same for a budget
	probing  bool          // the budget is that of a probe
	before   uint64        // value of passed before the probe
}

// stir wakes everybody who waits at the gate.
func (g *gate) stir() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// turn handles the end of a pause, and of a budget that was used up: it starts a probe of one unit.
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

// closed returns how long the gate stays closed for cost units.
func (g *gate) closed(now time.Time, cost uint32) time.Duration {
	g.turn(now)
	wait := g.until.Sub(now)
	if g.paused && g.patience > 0 {
		return max(wait, 0) // a probe follows, independent of the budget
	}
	if now.Before(g.bounds) && uint64(cost) > g.left() {
		wait = max(wait, g.bounds.Sub(now))
	}
	return max(wait, 0)
}

// left returns the remaining budget.
func (g *gate) left() uint64 { return g.budget - min(g.budget, g.passed) }

// Pause stops all units for d from now. Call it when another party that enforces the same limit
// asks for it, such as a server with Retry-After. A later call never shortens a pause. A pause
// applies to this process only. Force does not stop for it, but adds it to its wait.
func (p *Pacer) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.gate.until) {
		p.gate.until = until
	}
	p.gate.paused, p.gate.probing = true, false
	p.gate.stir()
}

// Probe sets what happens at the end of a pause, or of a budget that was used up. With patience
// above 0, only one unit passes, the probe, until Budget or Pause is called with the result, so
// that waiting callers do not all send to the other party at once. After patience without a result,
// all may pass. With 0, the initial value, all may pass immediately.
func (p *Pacer) Probe(patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.patience = patience
}

// Probing reports whether a probe may pass or is under way, and the value of Passed before it.
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

// Budget limits the units for the next d, in addition to the limit: units pass only until Passed
// reaches total. Call it when another party that enforces the same limit reports its remaining
// units. It replaces the previous budget. A caller that waits for a budget is not refused because
// of its deadline, since the next report may allow more.
//
// The bound is a total because a report is about the past: if the other party had n units left when
// it had answered k units, then k+n may pass, however many are under way.
func (p *Pacer) Budget(total uint64, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.budget, p.gate.bounds = total, time.Now().Add(d)
	p.gate.bounded, p.gate.probing = true, false
	p.gate.stir()
}

// Passed returns the number of units that this pacer has let pass.
func (p *Pacer) Passed() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.passed
}

// held returns how long the gate stays closed for cost units.
func (p *Pacer) held(cost uint32) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.closed(time.Now(), cost)
}

// withinGate returns how many of n units the budget allows.
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

// spent adds passed units.
func (p *Pacer) spent(d *stint.Decision, cost uint32) {
	if !d.Allowed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate.passed += uint64(cost)
}
