package transaction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stint"
)

// tries is how often a group is decided. It is decided again if a peek denied it, and all of it
// fits when the second step takes it to learn the retry time.
const tries = 3

// DebitCapped is the Op of a step that debits without a test, see [stint.StoreLimit.DebitCapped]. No
// take has it.
const DebitCapped = stint.AskAtMost + 1

// Phase is the purpose of steps.
type Phase int

// The phases of a Run.
const (
	Test   Phase = iota // test what would pass, or peek; nothing is charged
	Charge              // take, each participant all or none
	Change              // force, give back, settle, reset, owe
	Deny                // do what denied takes do
	Look                // return the present state
	Undo                // give back what was charged
)

// Step is the operation on one part in a phase.
type Step struct {
	Part int
	Op   stint.Op
	Cost uint64
	Undo *stint.Decision

	// Result is the decision if the step was done; otherwise Err is why not. Passed reports whether
	// all steps of its participant were allowed. Writes reports, for a test, whether the take would
	// change the state even if it is denied.
	Result stint.Decision
	Err    error
	Passed bool
	Writes bool
}

// Participants are the servers or partitions that have the keys of a group.
type Participants interface {
	// Do does steps, those of one participant as one, all participants at once, and sets the
	// results of each step. The error means that some were not done.
	Do(ctx context.Context, phase Phase, steps []Step) error

	// Detach returns participants for steps that are done after the call has returned, and the
	// Background that does them.
	Detach() (Participants, *Background)
}

// Run decides a plan whose parts several participants have, in these steps. Each is one round trip
// to all of them at once:
//
//	test     each part by itself, then sources, if some part needs them; nothing is charged
//	charge   if all pass: each participant all or none; if one denies because of other
//	         calls, the rest is undone
//	change   takes that force, give back, settle or reset, and debts: these cannot be undone,
//	         so they are done when all else has passed
//	deny     if not all pass: what denied takes do all the same
//
// For participants that cannot test, Run peeks instead (Peeks) and computes what fits from the
// remaining units. If something does not fit, Run takes it to learn the retry time; if it fits by
// then the group is decided again.
type Run struct {
	*Plan[ID]
	By    Participants
	Peeks bool

	// Charges are what the run charged. Charged.On is the index of the part.
	Charges

	waits  []time.Duration // for each part, time until it fits its own limit, by the test
	writes []bool          // Step.Writes of each part's test
}

// Decide decides the group and sets the results of the parts. After an error nothing of the group
// is charged, unless the error wraps stint.ErrUnknown.
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

// fail undoes everything that was charged.
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

// decide decides the group; done is false if it must be decided again. It tests whether 1 unit of
// each AskAtMost passes, and then charges the most that all of them can take, but in the last try 1
// unit. So a group is denied only if some take could take nothing.
func (r *Run) decide(ctx context.Context, last bool) (done bool, err error) {
	r.narrow(func(*Part[ID]) (denied stint.Decision) { return denied })
	if err := r.test(ctx); err != nil {
		return false, err
	}
	switch {
	case r.passes():
		if !last {
			r.narrow(func(p *Part[ID]) stint.Decision { return p.Result })
		}
		return r.charge(ctx, last)
	case r.Peeks:
		return r.denyPeeked(ctx, last)
	}
	return true, r.denyTested(ctx)
}

// test tests which parts fit.
func (r *Run) test(ctx context.Context) error {
	asks := slices.ContainsFunc(r.Parts, func(p Part[ID]) bool { return p.Take.Op.Asks() })
	first := func(p *Part[ID]) bool { return p.Take.Op.Asks() && !p.Source }
	if r.Peeks {
		first = func(*Part[ID]) bool { return asks }
	}
	r.resetBorrowing() // of an earlier try
	if err := r.testThose(ctx, first); err != nil || len(r.debts) == 0 {
		return err
	}
	r.borrow()
	sources := func(p *Part[ID]) bool { return p.Source }
	if !r.Peeks {
		return r.testThose(ctx, sources)
	}
	r.setFits(sources)
	return nil
}

// testThose tests the parts that which selects.
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
	r.setFits(which)
	return err
}

// setFits sets Fits of the parts that which selects, after they were tested or peeked at.
func (r *Run) setFits(which func(*Part[ID]) bool) {
	for i := range r.Parts {
		p := &r.Parts[i]
		if !which(p) || !p.Take.Op.Asks() {
			continue
		}
		if r.Peeks {
			r.waits[i], p.Fits = stint.Never, fits(p.Limit, &p.Result, p.Units())
			continue
		}
		p.Fits = p.Result.Allowed
	}
}

// fits reports whether a take of that cost would pass, by the decision of a peek. The time of a
// log's last take follows from its ResetAfter.
func fits(limit *stint.Limit, seen *stint.Decision, cost uint64) bool {
	switch {
	case cost == 0:
		return true
	case limit.Algorithm() == stint.Penalty: // a try of any cost
		return seen.Remaining > 0
	}
	if cost > uint64(seen.Remaining) {
		return false
	}
	spec := limit.Spec()
	return spec.MinInterval == 0 || seen.Degraded || seen.ResetAfter <= spec.Per-spec.MinInterval
}

// do does steps. It sets the results of the parts, and adds to Charges.
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
		case phase == Change && s.Op != DebitCapped, phase == Deny && s.Op == stint.Ask && s.Cost > 0:
			r.Lasting = true
		case phase == Charge, phase == Change:
			r.add(Charged{s.Part, p.Take, s.Cost, &s.Result}, s.Passed)
		}
	}
	return err
}

// charge takes all parts, and then does what cannot be undone. The group must be decided again if
// others took so much meanwhile that only fewer units of an AskAtMost pass.
func (r *Run) charge(ctx context.Context, last bool) (done bool, err error) {
	var asks, changes []Step
	for i := range r.Parts {
		p := &r.Parts[i]
		switch {
		case !p.Take.Op.Asks():
			changes = append(changes, r.ownStep(i))
		case p.Over && !r.Peeks:
			asks = append(asks, Step{Part: i}) // a denied test does not return the state
		case !p.Over && (p.Units() > 0 || !r.Peeks):
			asks = append(asks, Step{Part: i, Cost: p.Units()})
		}
		if p.owed > 0 {
			changes = append(changes, Step{Part: i, Op: DebitCapped, Cost: p.owed})
		}
	}
	if err := r.do(ctx, Charge, asks); err != nil {
		return false, err
	}
	if slices.ContainsFunc(asks, func(s Step) bool { return !s.Result.Allowed }) {
		err := r.tooLate(ctx)
		fewer := !last && len(r.List) == 0 && !r.Lasting && slices.ContainsFunc(r.Parts, func(p Part[ID]) bool { return p.atMost() && p.Cost > 1 })
		return err != nil || !fewer, err
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		p.Result.Over = p.Result.Over || p.Over
		p.charge()
	}
	return true, r.do(ctx, Change, changes)
}

// allowed reports whether a source's last charge was allowed.
func allowed(source *Part[ID]) bool { return source.Result.Allowed }

// ownStep returns the step for a part whose take is no Ask.
func (r *Run) ownStep(part int) Step {
	t := r.Parts[part].Take
	return Step{Part: part, Op: t.Op, Cost: r.Parts[part].Cost, Undo: t.Undo}
}

// tooLate denies a group that passed the test and was denied when it was charged, because others
// took the rest meanwhile.
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
		if !r.Parts[i].Take.Op.Asks() {
			looks = append(looks, Step{Part: i})
		}
	}
	return r.do(ctx, Look, looks)
}

// denyTested denies a group by the results of the test, and does what denied takes do.
func (r *Run) denyTested(ctx context.Context) error {
	var steps []Step
	tests := make([]stint.Decision, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		switch overdraws := p.Limit.ForStores().Overdraws(); {
		case !p.Take.Op.Asks():
			steps = append(steps, r.ownStep(i))
		case p.Over: // it would have passed: return its own state, unchanged
			p.Result.Allowed, p.Result.RetryAfter = true, 0
			if p.Limit.ForStores().Reserves() { // a denied test returned a later reset
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
		if !p.Take.Op.Asks() || test.Allowed {
			continue
		}
		if p.Result.Allowed { // it fits meanwhile
			p.Result = *test
		}
	}
	r.sooner()
	return nil
}

// denyPeeked denies a group by the results of a peek. It takes what does not fit, to learn the
// retry time. If all of that fits meanwhile it undoes it and returns false: the group must be
// decided again.
func (r *Run) denyPeeked(ctx context.Context, last bool) (done bool, err error) {
	var steps []Step
	for i := range r.Parts {
		p := &r.Parts[i]
		if !p.Take.Op.Asks() || p.Over {
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

// denies reports whether a part denies the group.
func (r *Run) denies(part int) bool {
	p := &r.Parts[part]
	switch {
	case !p.Take.Op.Asks() || !p.Asked || p.Over || p.Result.Allowed:
		return false
	case !p.borrows():
		return true
	}
	wait, room := r.room(part, allowed)
	p.Result.RetryAfter = min(p.Result.RetryAfter, wait)
	return !room
}

// refuse denies the parts that never fit in a peek and always fitted when taken, with a retry time
// of 0.
func (r *Run) refuse() {
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Take.Op.Asks() && p.Asked && !p.Fits && !p.Over {
			p.Result.Allowed, p.Result.RetryAfter = false, 0
		}
	}
}

// undo gives back what the run charged: all of it, or all except charges of limits that overdraw,
// which stay if a call is denied. If the caller has stopped waiting it goes on after the call has
// returned.
func (r *Run) undo(ctx context.Context, all bool) error {
	charges := r.Refunds(func(c Charged) bool { return all || !c.Take.Limit.ForStores().Overdraws() })
	back := make([]Step, len(charges))
	for i, c := range charges {
		back[i] = Step{Part: c.On, Op: stint.Refund, Cost: c.Cost, Undo: c.By}
	}
	if len(back) == 0 {
		return nil
	}
	later, err := Revert(ctx, func(ctx context.Context) error { return undoSteps(ctx, r.By, back) },
		func() (func(context.Context) error, *Background) {
			by, background := r.By.Detach()
			return func(ctx context.Context) error { return undoSteps(ctx, by, back) }, background
		})
	r.Lasting = r.Lasting || later || err != nil
	switch {
	case later:
		return stint.ErrUnknown
	case err != nil:
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	for i := range back {
		r.Parts[back[i].Part].Result = back[i].Result
	}
	return nil
}

// undoSteps does steps in their order, never two for one part at the same time.
func undoSteps(ctx context.Context, by Participants, steps []Step) error {
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && !slices.ContainsFunc(steps[:n], func(s Step) bool { return s.Part == steps[n].Part }) {
			n++
		}
		if err := by.Do(ctx, Undo, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}
