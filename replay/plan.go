package replay

import (
	"context"
	"errors"
	"io"
	"slices"

	"stint"
	"stint/replay/accesslog"
	"stint/replay/whatif"
	"stint/rule"
)

// Plan replays the inputs twice, by the rules before a change and by those after it, and returns what
// the change does. It uses the reorder window and the progress of the options. Each input is opened
// twice, so it cannot be a stream. Fewer than half of the lines parsed is an [*UnreadableError]. If ctx
// ends before, Plan returns the error of ctx and what is known: it compares nothing.
func Plan(ctx context.Context, before, after *rule.Table, opts Options, inputs []accesslog.Input) (*whatif.Plan, error) {
	progress := opts.Progress
	opts.Algorithms = []stint.Algorithm{}
	opts.Sweep = false
	inputs = fixed(inputs)
	var sides [2]*side
	for i, table := range []*rule.Table{before, after} {
		if progress != nil {
			opts.Progress = func(read, total int64) { progress(read+int64(i)*total, 2*total) }
		}
		var err error
		sides[i], err = replaySide(ctx, table, opts, inputs)
		if unusable, ok := errors.AsType[*accesslog.InputError](err); ok && unusable.Name == "rules" {
			unusable.Name = [2]string{"the old rules", "the new rules"}[i]
		}
		switch {
		case err != nil && sides[i] != nil && sides[i].report != nil: // only ctx ended
			return interruptedPlan(sides), err
		case err != nil:
			return nil, err
		}
	}
	if err := sides[1].report.Readable(); err != nil {
		return nil, err
	}
	return compareSides(sides[0], sides[1]), nil
}

// fixed returns inputs that end where the files end now, so that both replays read the same lines of a
// log that a server still writes.
func fixed(inputs []accesslog.Input) []accesslog.Input {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		open, size := inputs[i].Open, inputs[i].Size
		if size <= 0 {
			continue
		}
		inputs[i].Open = func() (io.ReadCloser, error) {
			file, err := open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.LimitReader(file, size), file}, nil
		}
	}
	return inputs
}

// side is what one set of rules does.
type side struct {
	decider *rulesDecider
	report  *Report
}

func replaySide(ctx context.Context, table *rule.Table, opts Options, inputs []accesslog.Input) (*side, error) {
	opts.Rules = table
	if err := opts.check(); err != nil {
		return nil, err
	}
	d, err := newRulesDecider(&opts)
	if err != nil {
		return nil, err
	}
	d.denials = whatif.NewDenials(table)
	report, err := decide(ctx, &opts, d, inputs)
	return &side{d, report}, err
}

// interruptedPlan returns what is known when a replay was interrupted: what the old rules do.
func interruptedPlan(sides [2]*side) *whatif.Plan {
	before := sides[0].report
	p := &whatif.Plan{
		Lines: before.Lines, Parsed: before.Parsed, Unparseable: before.Unparseable, Late: before.Late,
		DeniedBefore: before.Denied, Clients: before.DistinctClients, Rules: []whatif.Change{}, Notes: before.Notes, Interrupted: true,
	}
	if sides[1] != nil {
		p.Notes = sides[1].report.Notes
	}
	return p
}

// compareSides compares what the rules before and after a change do.
func compareSides(before, after *side) *whatif.Plan {
	r := after.report
	p := &whatif.Plan{
		Lines: r.Lines, Parsed: r.Parsed, Unparseable: r.Unparseable, Late: r.Late,
		DeniedBefore: before.report.Denied, DeniedAfter: r.Denied, Clients: r.DistinctClients,
		Rules: whatif.Differences(before.decider.denials, after.decider.denials), Notes: r.Notes,
	}
	for id := range after.decider.tally.clients { // the clients have the same numbers on both sides
		was, is := before.decider.tally.denied(id), after.decider.tally.denied(id)
		switch {
		case is && !was:
			p.NewlyDenied++
		case was && !is:
			p.Freed++
		}
	}
	return p
}
