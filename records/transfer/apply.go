package transfer

import (
	"context"
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
	if !slices.Contains(p.o.Kinds, row.Kind) {
		return s, false, p.stranger(row)
	}
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

// stranger returns the error for a record of a kind that the import may not have.
func (p *plan) stranger(row *Row) error {
	e := &LineError{Line: row.Line, Problem: "a " + row.Record + " in an import of " + kindsText(p.o.Kinds), Hint: "leave it out, or import all kinds"}
	if row.Kind == records.Rules && !p.file.HasRules() {
		e.Hint = "leave it out: this service has its rules per API from --catalog or --catalog-db, see /v1/rules"
	}
	return e
}

// note remembers a record of the import.
func (p *plan) note(line int, id records.ID) error {
	name := digestOf(id)
	_, twice := p.seen[name]
	switch {
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
func (p *plan) apply(ctx context.Context) error {
	edits := slices.Clone(p.first)
	flush := func() error {
		err := p.parts.apply(ctx, edits)
		edits = edits[:0]
		return err
	}
	passes := []struct {
		steps iter.Seq2[step, error]
		skip  func(s *step) bool
	}{
		{p.missing(ctx), (*step).isFirst},
		{p.read(ctx), func(s *step) bool { return !s.moves() }},
		{p.read(ctx), func(s *step) bool { return s.isFirst() || s.moves() }},
	}
	if !p.moving {
		passes = slices.Delete(passes, 1, 2)
	}
	for _, pass := range passes {
		for s, err := range pass.steps {
			if err != nil {
				return err
			}
			if pass.skip(&s) {
				continue
			}
			if len(edits) >= p.parts.most {
				if err := flush(); err != nil {
					return err
				}
			}
			edits = append(edits, s.edit)
		}
	}
	return flush()
}

// rules returns the rules per API as they are after the import.
func (p *plan) rules(ctx context.Context) iter.Seq2[records.Rule, error] {
	return func(yield func(records.Rule, error) bool) {
		next := func(r records.Record, err error) bool {
			rule, is := r.(records.Rule)
			return err == nil && !is || yield(rule, err) && err == nil
		}
		for e, err := range p.file.All(records.Rules) {
			if p.o.Replace {
				break
			}
			if err == nil {
				if _, twice := p.seen[digestOf(e.Record.ID())]; twice {
					continue
				}
			}
			if !next(e.Record, err) {
				return
			}
		}
		if _, err := p.in.Seek(0, io.SeekStart); err != nil {
			yield(records.Rule{}, err)
			return
		}
		for row, err := range Read(p.in, p.o.Format) {
			var r records.Record
			if err == nil && row.Kind == records.Rules {
				r, _, err = p.check(&row)
			}
			if err == nil {
				err = ctx.Err()
			}
			if !next(r, err) {
				return
			}
		}
	}
}
