package transaction

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint"
)

// UndoTimeout is how long it may take to undo what a call charged, also where the caller waits no
// longer.
const UndoTimeout = time.Second

// tries is how often a group is decided anew that was denied after a peek, and would have passed when
// it was asked when it will.
const tries = 3

// Owe is the Op of a step that debits without a test, see [stint.StoreLimit.DebitCapped]. No take has it.
const Owe = stint.Settle + 1

// Phase is what steps are for.
type Phase int

// The phases of a Run.
const (
	Test   Phase = iota // ask what would pass, or peek at it; nothing is charged
	Charge              // each participant all or none
	Change              // force, give back, settle, reset, owe
	Deny                // do what denied takes do
	Look                // answer the present state
	Undo                // give back what was charged
)

// Step is what is done about one part in a phase.
type Step struct {
	Part int
	Op   stint.Op
	Cost uint64
	Undo *stint.Decision

	// What came of it, unless it was not done: then Err says why. Passed says that all steps of its
	// participant were allowed. Writes says of a test that the take would change the state though it is
	// denied.
	Result stint.Decision
	Err    error
	Passed bool
	Writes bool
}

// Participants are the servers or partitions that hold the keys of a group.
type Participants interface {
	// Do does steps, those of one participant as one, all participants at once, and notes in each
	// step what came of it. The error says that some were not done.
	Do(ctx context.Context, phase Phase, steps []Step) error

	// Detach returns participants for steps that are done after the call has returned, and where
	// the goroutine that does them is counted.
	Detach() (Participants, *sync.WaitGroup)
}

// Run decides a plan of which several participants hold the parts, in these steps. Each is one round
// trip to all of them at once:
//
//	test     each part by itself, then sources, where some part needs them; nothing is charged
//	charge   if all pass: each participant all or none; where one denies by now, as others
//	         were quicker, the rest is undone
//	change   what is forced, given back, settled, reset or owed: this cannot be undone, so
//	         it is done when all else has passed
//	deny     if not all pass: what denied takes do all the same
//
// Participants that cannot test are peeked at instead (Peeks): what is left tells what fits. Where
// something does not, it is charged to learn when it will; if it fits by then the group is
// decided anew.
type Run struct {
	*Plan[ID]
	By    Participants
	Peeks bool

	// Charged are the steps that charged what can be undone. Lasting says that something
	// was done that cannot be.
	Charged []Step
	Lasting bool

	waits  []time.Duration // until each part fits its own limit, as far as a test told
	writes []bool          // though it is denied
}

// Decide decides the group; the parts have the results. After an error nothing of the group is charged,
// unless it wraps stint.ErrUnknown.
func (r *Run) Decide(ctx context.Context) error {
	r.waits, r.writes = make([]time.Duration, len(r.Parts)), make([]bool, len(r.Parts))
	for n := range tries {
		done, err := r.decide(ctx, n == tries-1)
		if err != nil {
			return r.fail(ctx, err)
		}
		if done {
			break
		}
	}
	return nil
}

// fail undoes all that was charged.
func (r *Run) fail(ctx context.Context, err error) error {
	undone := r.undo(ctx, true)
	switch {
	case undone != nil:
		return fmt.Errorf("%w; %w", err, undone)
	case r.Lasting:
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	return err
}

// decide decides the group; done is false where it has to be decided anew.
func (r *Run) decide(ctx context.Context, last bool) (done bool, err error) {
	if err := r.test(ctx); err != nil {
		return false, err
	}
	switch {
	case r.passes():
		return true, r.charge(ctx)
	case r.Peeks:
		return r.denyPeeked(ctx, last)
	}
	return true, r.denyTested(ctx)
}

// test finds out what fits.
func (r *Run) test(ctx context.Context) error {
	asks := slices.ContainsFunc(r.Parts, func(p Part[ID]) bool { return p.Take.Op == stint.Ask })
	first := func(p *Part[ID]) bool { return p.Take.Op == stint.Ask && !p.Source }
	if r.Peeks {
		first = func(*Part[ID]) bool { return asks }
	}
	r.unborrow() // what an earlier try noted
	if err := r.testThose(ctx, first); err != nil || len(r.debts) == 0 {
		return err
	}
	r.borrow()
	sources := func(p *Part[ID]) bool { return p.Source }
	if !r.Peeks {
		return r.testThose(ctx, sources)
	}
	r.weigh(sources)
	return nil
}

// testThose tests some of the parts.
func (r *Run) testThose(ctx context.Context, which func(*Part[ID]) bool) error {
	var steps []Step
	for i := range r.Parts {
		if p := &r.Parts[i]; which(p) {
			steps = append(steps, Step{Part: i, Cost: p.Units()})
		}
	}
	err := r.do(ctx, Test, steps)
	for i := range steps {
		s := &steps[i]
		r.waits[s.Part], r.writes[s.Part] = s.Result.RetryAfter, s.Writes
		r.Parts[s.Part].alone = s.Result.Degraded
	}
	r.weigh(which)
	return err
}

// weigh says which of some parts fit, now that they were tested or peeked at.
func (r *Run) weigh(which func(*Part[ID]) bool) {
	for i := range r.Parts {
		p := &r.Parts[i]
		if !which(p) || p.Take.Op != stint.Ask {
			continue
		}
		if r.Peeks {
			r.waits[i], p.Fits = stint.Never, fits(p.Limit, &p.Result, p.Units())
			continue
		}
		p.Fits = p.Result.Allowed
	}
}

// fits says whether a take that costs so many units would pass of a key that a peek
// found like this. The distance from the last take of a log follows from when it will
// be forgotten.
func fits(limit *stint.Limit, seen *stint.Decision, cost uint64) bool {
	if cost == 0 {
		return true
	}
	if cost > uint64(seen.Remaining) {
		return false
	}
	spec := limit.Spec()
	return spec.MinInterval == 0 || seen.Degraded || seen.ResetAfter <= spec.Per-spec.MinInterval
}

// do does steps; parts know the results, and the run what was charged.
func (r *Run) do(ctx context.Context, phase Phase, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	err := r.By.Do(ctx, phase, steps)
	for i := range steps {
		s := &steps[i]
		if s.Err != nil {
			continue
		}
		p := &r.Parts[s.Part]
		p.Result = s.Result
		switch {
		case phase == Change && s.Op != Owe:
			r.Lasting = true
		case s.Cost == 0 || phase != Charge && phase != Change && phase != Deny:
		case phase == Deny:
			r.Lasting = r.Lasting || s.Op == stint.Ask
		case s.Passed && !s.Result.Over: // what is over was debited in part
			r.Charged = append(r.Charged, *s)
		case s.Passed && !r.Peeks: // a test would have found it
			r.Lasting = true
		case !s.Passed:
			r.Lasting = r.Lasting || p.Limit.ForStores().Overdraws()
		}
	}
	return err
}

// charge takes what fits, and then does what cannot be undone.
func (r *Run) charge(ctx context.Context) error {
	var asks, changes []Step
	for i := range r.Parts {
		p := &r.Parts[i]
		switch {
		case p.Take.Op != stint.Ask:
			changes = append(changes, r.own(i))
		case p.Over && !r.Peeks:
			asks = append(asks, Step{Part: i}) // a denied test does not tell the state
		case !p.Over && (p.Units() > 0 || !r.Peeks):
			asks = append(asks, Step{Part: i, Cost: p.Units()})
		}
		if p.owed > 0 {
			changes = append(changes, Step{Part: i, Op: Owe, Cost: p.owed})
		}
	}
	if err := r.do(ctx, Charge, asks); err != nil {
		return err
	}
	if slices.ContainsFunc(asks, func(s Step) bool { return !s.Result.Allowed }) {
		return r.tooLate(ctx)
	}
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Over {
			p.Result.Over = true
		}
	}
	return r.do(ctx, Change, changes)
}

// allowed says whether a source was allowed what it was charged last.
func allowed(source *Part[ID]) bool { return source.Result.Allowed }

// own is what a take does that is no Ask.
func (r *Run) own(part int) Step {
	t := r.Parts[part].Take
	return Step{Part: part, Op: t.Op, Cost: r.Parts[part].Cost, Undo: t.Undo}
}

// tooLate answers a group of which some part fitted when it was tested and was denied when it was
// charged, because others took the rest meanwhile.
func (r *Run) tooLate(ctx context.Context) error {
	if err := r.undo(ctx, false); err != nil {
		return err
	}
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Over {
			if wait, room := r.room(i, allowed); !room {
				p.Result.Allowed, p.Result.RetryAfter = false, min(wait, r.waits[i])
			}
		}
	}
	if r.Peeks {
		return nil
	}
	var looks []Step
	for i := range r.Parts {
		if r.Parts[i].Take.Op != stint.Ask {
			looks = append(looks, Step{Part: i})
		}
	}
	return r.do(ctx, Look, looks)
}

// denyTested answers a group that is denied, as the test told, and does what denied takes do.
func (r *Run) denyTested(ctx context.Context) error {
	var steps []Step
	tests := make([]stint.Decision, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		switch overdraws := p.Limit.ForStores().Overdraws(); {
		case p.Take.Op != stint.Ask:
			steps = append(steps, r.own(i))
		case p.Over: // it would have passed: its own state, unchanged
			p.Result.Allowed, p.Result.RetryAfter = true, 0
			if p.Limit.ForStores().Reserves() { // a denied test told a later reset
				steps = append(steps, Step{Part: i})
			}
		case !p.Fits && (overdraws || r.writes[i]), overdraws && !p.Source:
			steps = append(steps, Step{Part: i, Cost: p.Units()})
		}
		tests[i] = p.Result
	}
	if err := r.do(ctx, Deny, steps); err != nil {
		return err
	}
	for i := range steps {
		p, test := &r.Parts[steps[i].Part], &tests[steps[i].Part]
		if p.Take.Op != stint.Ask || test.Allowed {
			continue
		}
		if p.Result.Allowed { // by now
			p.Result = *test
		}
	}
	r.sooner()
	return nil
}

// denyPeeked answers a group that is denied: it asks for what does not fit, which tells when it
// will. Where all of it fits by now, nothing is done, and the group has to be decided anew.
func (r *Run) denyPeeked(ctx context.Context, last bool) (done bool, err error) {
	var steps []Step
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Take.Op != stint.Ask || p.Over {
			continue
		}
		if !p.Fits || !p.Source && p.Cost > 0 && p.Limit.ForStores().Overdraws() {
			steps = append(steps, Step{Part: i, Cost: p.Units()})
		}
	}
	if err := r.do(ctx, Charge, steps); err != nil {
		return false, err
	}
	denied := false
	for i := range r.Parts {
		denied = r.denies(i) || denied
	}
	if err := r.undo(ctx, !denied); err != nil {
		return false, err
	}
	if !denied && last {
		r.refuse()
	}
	return denied || last, nil
}

// denies says whether a part denies the group.
func (r *Run) denies(part int) bool {
	p := &r.Parts[part]
	switch {
	case p.Take.Op != stint.Ask || !p.Asked || p.Over || p.Result.Allowed:
		return false
	case !p.borrows():
		return true
	}
	wait, room := r.room(part, allowed)
	p.Result.RetryAfter = min(p.Result.RetryAfter, wait)
	return !room
}

// refuse refuses what did not fit whenever it was peeked at, and did whenever it was
// asked. It may try at once.
func (r *Run) refuse() {
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Take.Op == stint.Ask && p.Asked && !p.Fits && !p.Over {
			p.Result.Allowed, p.Result.RetryAfter = false, 0
		}
	}
}

// undo gives back what the run charged: all of it, or all but what limits are charged that
// overdraw, which stays where a call is denied. Where the caller waits no longer it goes on
// when the call has returned.
func (r *Run) undo(ctx context.Context, all bool) error {
	var back, kept []Step
	for i := range r.Charged {
		if c := &r.Charged[i]; all || !r.Parts[c.Part].Limit.ForStores().Overdraws() {
			back = append(back, Step{Part: c.Part, Op: stint.Refund, Cost: c.Cost, Undo: &c.Result})
		} else {
			kept = append(kept, *c)
		}
	}
	r.Charged = kept
	if len(back) == 0 {
		return nil
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	if ctx.Err() != nil {
		r.Lasting = true
		later, count := r.By.Detach()
		count.Go(func() {
			defer cancel()
			_ = undoSteps(own, later, back) // the caller has been told that it is unknown
		})
		return stint.ErrUnknown
	}
	defer cancel()
	if err := undoSteps(own, r.By, back); err != nil {
		r.Lasting = true
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	for i := range back {
		r.Parts[back[i].Part].Result = back[i].Result
	}
	return nil
}

// undoSteps does steps, the last first, and no two about one part at once.
func undoSteps(ctx context.Context, by Participants, steps []Step) error {
	for end := len(steps); end > 0; {
		first := end - 1
		for first > 0 && !slices.ContainsFunc(steps[first:end], func(s Step) bool { return s.Part == steps[first-1].Part }) {
			first--
		}
		if err := by.Do(ctx, Undo, steps[first:end]); err != nil {
			return err
		}
		end = first
	}
	return nil
}
