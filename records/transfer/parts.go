package transfer

import (
	"context"
	"errors"
	"time"

	"stint"
	"stint/records"
)

// parts makes edits in several changes.
type parts struct {
	file   *records.File
	change records.Change // without edits
	now    time.Time
	most   int // the most edits of a change: fewer if nodes share the records, and they are large

	made   int // edits
	result records.Outcome
}

// apply makes edits, in smaller changes where one is too large for nodes to share, or takes a busy node too long.
func (p *parts) apply(ctx context.Context, edits []records.Edit) error {
	for len(edits) > 0 {
		n := min(len(edits), p.most)
		change := p.change
		change.Edits = edits[:n]
		if p.made > 0 {
			change.IfMatch = 0 // its own changes follow each other
		}
		outcome, err := p.file.Apply(ctx, change, p.now)
		late := errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, stint.ErrUnknown) && ctx.Err() == nil
		switch {
		case (errors.Is(err, records.ErrTooLarge) || late) && n > 1:
			p.most = n / 2
			continue
		case err != nil:
			return err
		}
		p.result = outcome
		p.made += n
		edits = edits[n:]
	}
	return nil
}

// part returns an error, with the number of edits that were made before it. of is how many there are.
func (p *parts) part(err error, of int) error {
	if wrong, ok := errors.AsType[*records.Error](err); ok && p.change.Import && errors.Is(err, stint.ErrUnknown) {
		lost := *wrong // an import has no idempotency key, and needs none
		lost.Hint = "send the same import again: what is equal already is not written again"
		err = &lost
	}
	if p.made == 0 {
		return err
	}
	return &PartError{p.made, of, err}
}

// Apply makes a change without an idempotency key as [records.File.Apply] does. If it is too large for nodes
// to share, or takes a busy node too long, it is made in several changes; if a later one of these fails, the error is a [*PartError].
func Apply(ctx context.Context, f *records.File, c records.Change, now time.Time) (records.Outcome, error) {
	p := &parts{file: f, change: c, now: now, most: len(c.Edits)}
	if len(c.Edits) == 0 {
		return f.Apply(ctx, c, now)
	}
	if err := p.apply(ctx, c.Edits); err != nil {
		return p.result, p.part(err, len(c.Edits))
	}
	return p.result, nil
}
