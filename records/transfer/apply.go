package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"stint/records"
)

// read returns the records of the import that differ from those of the file. The first pass of an
// import counts the others, and finds those that are there twice.
func (p *plan) read(ctx context.Context) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		if _, err := p.in.Seek(0, io.SeekStart); err != nil {
			yield(step{}, err)
			return
		}
		again := p.compared
		for row, err := range Read(p.in, p.o.Format) {
			if err == nil {
				err = ctx.Err()
			}
			s, differs := step{}, false
			if err == nil {
				s, differs, err = p.step(&row, again)
			}
			if err != nil {
				yield(s, err)
				return
			}
			if differs && !yield(s, nil) {
				return
			}
		}
	}
}

// step compares a row with the record of the file.
func (p *plan) step(row *Row, again bool) (s step, differs bool, err error) {
	r, ok, err := p.check(row)
	if err != nil {
		return s, false, err
	}
	if !ok {
		if !again {
			p.diff.Ended++
		}
		return s, false, nil
	}
	id := r.ID()
	if !again {
		if err := p.note(row.Line, id); err != nil {
			return s, false, err
		}
	}
	s.edit, s.after = records.Edit{Put: r}, r
	before, there, err := p.file.Get(id)
	var exported records.Record // as an export has it
	if err == nil && there {
		exported, _, err = settled(p.file, before.Record, p.now)
	}
	switch {
	case err != nil:
		return s, false, err
	case there && (same(before.Record, r) || same(exported, r)):
		if !again {
			p.diff.Unchanged++
		}
		return s, false, nil
	case there:
		s.before = before.Record
	}
	return s, true, nil
}

// note remembers a record of the import.
func (p *plan) note(line int, id records.ID) error {
	name := digestOf(id)
	_, twice := p.seen[name]
	switch {
	case !slices.Contains(p.o.Kinds, id.Kind):
		return &LineError{Line: line, Problem: "a " + string(id.Kind) + " in an import of " + kindsText(p.o.Kinds), Hint: "leave it out, or import all kinds"}
	case twice:
		return &LineError{Line: line, Problem: id.String() + " is there twice", Hint: "leave out one of them"}
	case len(p.seen) == MaxRecords:
		return &LineError{Line: line, Problem: fmt.Sprintf("more than %d records", MaxRecords), Hint: "import several files"}
	}
	p.seen[name] = struct{}{}
	return nil
}

// missing returns the records of the file that a replacing import deletes.
func (p *plan) missing(ctx context.Context) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		if !p.o.Replace {
			return
		}
		for _, kind := range p.o.Kinds {
			for e, err := range p.file.All(kind) {
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					yield(step{}, err)
					return
				}
				id := e.Record.ID()
				if _, stays := p.seen[digestOf(id)]; stays {
					continue
				}
				if !yield(step{edit: records.Edit{Delete: id}, before: e.Record}, nil) {
					return
				}
			}
		}
	}
}

// apply makes the changes.
func (p *plan) apply(ctx context.Context, result records.Outcome) (records.Outcome, error) {
	p.edits = slices.Clone(p.first)
	for _, all := range []iter.Seq2[step, error]{p.missing(ctx), p.read(ctx)} {
		for s, err := range all {
			if err != nil {
				return result, p.part(err)
			}
			if s.isFirst() {
				continue
			}
			if len(p.edits) >= p.most {
				if err := p.flush(ctx, &result); err != nil {
					return result, err
				}
			}
			p.edits = append(p.edits, s.edit)
		}
	}
	return result, p.flush(ctx, &result)
}

// flush makes the next change, or several smaller ones if it is too large for nodes to share.
func (p *plan) flush(ctx context.Context, result *records.Outcome) error {
	for len(p.edits) > 0 {
		n := min(len(p.edits), p.most)
		change := p.o.Change
		change.Edits, change.IdempotencyKey, change.Import = p.edits[:n], "", true
		if p.started {
			change.IfMatch = 0 // its own changes follow each other
		}
		outcome, err := p.file.Apply(ctx, change, p.now)
		switch {
		case errors.Is(err, records.ErrTooLarge) && n > 1:
			p.most = n / 2
			continue
		case err != nil:
			return p.part(err)
		}
		*result, p.started = outcome, true
		p.applied += n
		p.edits = slices.Delete(p.edits, 0, n)
	}
	return nil
}

// part returns an error, with the number of records that were imported before it.
func (p *plan) part(err error) error {
	if !p.started {
		return err
	}
	return &PartError{p.applied, p.diff.Added + p.diff.Changed + p.diff.Deleted, err}
}
