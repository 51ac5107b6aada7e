package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"stint/records"
	"stint/records/apikey"
)

const (
	// MaxAtOnce is the most records of one change of an import. Nodes that share records may take fewer.
	MaxAtOnce = 10_000

	// MaxRecords is the most records of an import. A digest of each name is in memory meanwhile, to find records
	// that are there twice.
	MaxRecords = 5_000_000

	// maxShown is the most records that a Difference names, and maxWarnings the most warnings in full.
	maxShown    = 100
	maxWarnings = 20
)

// Options are how to import.
type Options struct {
	Format  Format
	Kinds   []records.Kind // kinds that the file may have, and that Replace empties
	Replace bool           // delete the records of these kinds that the file does not have
	DryRun  bool           // change nothing
	Change  records.Change // its Edits and IdempotencyKey are not used

	// Warn returns a warning about an override or a grant that is added or changed, such as one of a rule
	// that does not exist; "" for none. It may be nil.
	Warn func(r records.Record) string
}

// Difference is what an import changes.
type Difference struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Deleted   int `json:"deleted"`
	Unchanged int `json:"unchanged"`
	Ended     int `json:"ended"` // records of the import that have ended, and are left out

	// Warnings are the first warnings about overrides and grants that are added or changed, and how many more there are.
	Warnings []string `json:"warnings"`

	// Shown are the first records that are added, changed or deleted.
	Shown []Line `json:"differences"`
}

// Line is one record of a Difference.
type Line struct {
	Do     string       `json:"do"` // add, change or delete
	Record records.Kind `json:"record"`
	Name   string       `json:"name"`
	Before *Fields      `json:"before"` // null for a new record
	After  *Fields      `json:"after"`  // null for a deleted one
}

// PartError is the error of an import of which some changes were made.
type PartError struct {
	Applied, Of int // records
	Err         error
}

// Error says how much was imported.
func (e *PartError) Error() string {
	return fmt.Sprintf("%d of %d records were imported, then: %v", e.Applied, e.Of, e.Err)
}

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// Import imports the records of a file. The error may be a [*LineError], a [*records.Error], a
// [*PartError] or that of in.
func Import(ctx context.Context, f *records.File, in io.ReadSeeker, o Options, now time.Time) (Difference, records.Outcome, error) {
	change := o.Change
	change.Edits, change.IdempotencyKey, change.Import = nil, "", true
	p := &plan{file: f, in: in, o: o, now: now, seen: map[digest]struct{}{}, parts: parts{file: f, change: change, now: now, most: MaxAtOnce}}
	p.diff.Shown, p.diff.Warnings = []Line{}, []string{}
	var err error
	if p.parts.result.Revision, err = f.Revision(); err != nil {
		return p.diff, p.parts.result, err
	}
	if err := p.compare(ctx); err != nil || o.DryRun {
		return p.diff, p.parts.result, err
	}
	err = p.apply(ctx)
	if err != nil {
		err = p.parts.part(err, p.diff.Added+p.diff.Changed+p.diff.Deleted)
	}
	return p.diff, p.parts.result, err
}

// digest stands for the name of a record.
type digest [16]byte

func digestOf(id records.ID) digest {
	sum := sha256.Sum256([]byte(string(id.Kind) + "\x00" + id.Name))
	return digest(sum[:16])
}

// plan is an import under way.
type plan struct {
	file *records.File
	in   io.ReadSeeker
	o    Options
	now  time.Time
	diff Difference
	seen map[digest]struct{} // records of the import

	// first are the edits that the file compares with other records: API keys that replace another
	// and those that they replace, and overrides with a pattern. They are made first, so that an
	// import is refused before its first change.
	first []records.Edit

	parts    parts
	compared bool // the first pass is over
	ruled    bool // a rule per API differs
	moving   bool // one moves
	warned   int  // number of warnings
}

// compare finds all faults and the difference.
func (p *plan) compare(ctx context.Context) error {
	for e, err := range p.read(ctx) {
		if err != nil {
			return err
		}
		if e.isFirst() {
			p.first = append(p.first, e.edit)
		}
		p.count(e)
	}
	for e, err := range p.missing(ctx) {
		if err != nil {
			return err
		}
		if e.isFirst() {
			p.first = append(p.first, e.edit)
		}
		p.count(e)
	}
	if len(p.first) > MaxAtOnce {
		return &records.Error{
			Where:   "import",
			Problem: fmt.Sprintf("%d overrides with a pattern, and API keys that are being replaced, differ; at most %d can", len(p.first), MaxAtOnce),
			Hint:    "import them in several files",
		}
	}
	p.first, p.compared = inOrder(p.first), true
	if p.warned > len(p.diff.Warnings) {
		p.diff.Warnings = append(p.diff.Warnings, fmt.Sprintf("and %d more", p.warned-len(p.diff.Warnings)))
	}
	if p.ruled {
		return p.file.CheckRules(p.rules(ctx))
	}
	return nil
}

// step is one record of an import.
type step struct {
	edit          records.Edit
	before, after records.Record // nil for none
}

// isFirst reports whether the file compares the record with others.
func (s *step) isFirst() bool {
	r := s.after
	if r == nil {
		r = s.before
	}
	switch r := r.(type) {
	case records.Override:
		return r.IsPattern()
	case records.APIKey:
		return r.Replaces != apikey.Hash{} || r.ReplacedBy != apikey.Hash{}
	}
	return false
}

// moves reports whether the record is a rule per API that no longer limits what it did. So another rule of
// the import may do that: each url, uid and time has one rule at most.
func (s *step) moves() bool {
	_, rule := s.after.(records.Rule)
	if !rule || s.before == nil {
		return false
	}
	old, next := FieldsOf(s.before), FieldsOf(s.after)
	return old.UID != next.UID || old.URL != next.URL || old.Domain != next.Domain || old.Time != next.Time
}

// count adds a record to the difference.
func (p *plan) count(s step) {
	line := Line{}
	switch {
	case s.before == nil:
		p.diff.Added++
		line.Do = "add"
	case s.after == nil:
		p.diff.Deleted++
		line.Do = "delete"
	default:
		p.diff.Changed++
		line.Do = "change"
	}
	switch s.after.(type) {
	case records.Override, records.Grant:
		p.warn(s.after)
	case records.Rule:
		p.ruled, p.moving = true, p.moving || s.moves()
	}
	if len(p.diff.Shown) == maxShown {
		return
	}
	for _, side := range []struct {
		r  records.Record
		to **Fields
	}{{s.before, &line.Before}, {s.after, &line.After}} {
		if side.r != nil {
			fields := FieldsOf(side.r)
			*side.to = &fields
			line.Record, line.Name = side.r.ID().Kind, side.r.ID().Name
		}
	}
	p.diff.Shown = append(p.diff.Shown, line)
}

// warn adds the warning about a record, if there is one.
func (p *plan) warn(r records.Record) {
	if p.o.Warn == nil {
		return
	}
	warning := p.o.Warn(r)
	if warning == "" {
		return
	}
	if p.warned++; p.warned <= maxWarnings {
		p.diff.Warnings = append(p.diff.Warnings, r.ID().String()+": "+warning)
	}
}

// check returns the record of a row as it would be stored. ok is false if it has ended.
func (p *plan) check(row *Row) (r records.Record, ok bool, err error) {
	r, fault := row.Fields.Read(row.Kind, p.now)
	if fault != nil {
		return nil, false, FaultAt(row.Line, fault)
	}
	if ended(r, p.now) {
		return nil, false, nil
	}
	if r, err = p.file.Check(r, p.o.Change.Force, p.now); err != nil {
		wrong, is := errors.AsType[*records.Error](err)
		if !is {
			return nil, false, err
		}
		return nil, false, &LineError{Line: row.Line, Problem: wrong.Error(), Hint: wrong.Hint}
	}
	return r, true, nil
}

// ended reports whether a record has ended. Of a subject only the plan ends.
func ended(r records.Record, now time.Time) bool {
	switch r := r.(type) {
	case records.Override:
		return !r.InForce(now)
	case records.Ban:
		return !r.InForce(now)
	case records.APIKey:
		return !r.InForce(now)
	case records.Grant:
		return !r.Until.IsZero() && !r.Lasts(now)
	}
	return false
}

// same reports whether two records are equal.
func same(a, b records.Record) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	one, err1 := json.Marshal(a)
	two, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(two)
}

// inOrder puts API keys that are replaced before their replacements, and deletions before all.
func inOrder(edits []records.Edit) []records.Edit {
	byHash := map[apikey.Hash]int{}
	for i := range edits {
		if k, ok := edits[i].Put.(records.APIKey); ok {
			byHash[k.Hash] = i
		}
	}
	ordered := make([]records.Edit, 0, len(edits))
	done := make([]bool, len(edits))
	var add func(i, depth int)
	add = func(i, depth int) {
		if done[i] {
			return
		}
		done[i] = true // also ends a circle
		if k, ok := edits[i].Put.(records.APIKey); ok && depth < len(edits) {
			if old, there := byHash[k.Replaces]; there {
				add(old, depth+1)
			}
		}
		ordered = append(ordered, edits[i])
	}
	for i := range edits {
		if edits[i].Put == nil {
			add(i, 0)
		}
	}
	for i := range edits {
		add(i, 0)
	}
	return ordered
}

// kindsText returns the kinds for a message.
func kindsText(kinds []records.Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}
