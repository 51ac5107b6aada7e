package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
)

// Limits is the kind of what a reset resets. There are no records of this kind, only entries of the
// audit trail. Its name is the rule, a space and the key, such as "api/user user=42".
const Limits Kind = "limit"

// Event is what is written to the audit trail and changes no record, such as a reset.
type Event struct {
	By       Actor
	Action   trail.Action
	Object   ID              // what was changed
	Subjects []string        // whom it is about, such as user=42; erasing one of them erases the texts of the entry
	Before   json.RawMessage // nil if unknown
	After    json.RawMessage // nil if unknown
	Why      string
}

// maxEvent is the most bytes of an object and its subjects, and of the JSON before and after.
const maxEvent = trail.MaxEvent

// entry returns the entry of the audit trail.
func (e *Event) entry() *trail.Entry {
	texts := trail.Texts{Object: e.Object.Name, Before: e.Before, After: e.After, Why: e.Why, Subjects: e.Subjects}
	return &trail.Entry{Action: e.Action, Kind: string(e.Object.Kind), Texts: texts}
}

func (e *Event) check() error {
	if field, problem, hint := e.entry().Check(); problem != "" {
		return &Error{Where: "event: " + field, Problem: problem, Hint: hint}
	}
	return checkReason("event", e.By, e.Why)
}

// checkReason checks who makes a change, and why.
func checkReason(where string, by Actor, why string) error {
	for _, name := range []string{by.Name, by.From} {
		if len(name) > MaxSubject {
			return &Error{Where: where + ": by", Problem: fmt.Sprintf("%d bytes, at most %d", len(name), MaxSubject), Hint: "use a shorter name for the token or the certificate"}
		}
	}
	if fault := (ID{}).checkText("why", why); fault != nil {
		return &Error{Where: where + ": why", Problem: fault.Problem, Hint: fault.Hint}
	}
	return nil
}

// Note writes one entry to the audit trail. When it returns without an error, the entry is on disk.
func (f *File) Note(ctx context.Context, e Event, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	var head trail.Head
	return f.update(ctx, func(tx *replication.Tx) (err error) {
		w := auditOf(tx, dbfile.Revision(tx.Tx), e.By, now)
		if err := w.Write(*e.entry()); err != nil {
			return err
		}
		head, err = w.End(f.keptSince(now))
		return err
	}, func() { f.head.Store(&head) })
}

// auditOf returns the writer of the audit trail for a change.
func auditOf(tx *replication.Tx, revision uint64, by Actor, now time.Time) *trail.Writer {
	return trail.NewWriter(tx, trail.Entry{Revision: revision, Time: now, Actor: by.Name, From: by.From})
}

// Head returns the number and the hash of the last entry of the audit trail; 0 and 64 zeros if there is
// none. Operators keep it elsewhere, so that Verify can find that later entries were cut off.
func (f *File) Head() (number uint64, hash string) {
	head := f.head.Load()
	return head.Number, head.Hash.String()
}

// Trail returns the entries of the audit trail from a number on, oldest first. It starts with the first
// entry that is kept if that is later. It reads in pages, so that a slow caller delays no change. The
// last element may be an [*Error].
func (f *File) Trail(from uint64) iter.Seq2[trail.Entry, error] {
	return func(yield func(trail.Entry, error) bool) {
		for e, err := range f.selected(from, nil) {
			if !yield(e, f.trailFault(err)) {
				return
			}
		}
	}
}

// trailFault returns the Error for a fault of the trail; another error as it is.
func (f *File) trailFault(err error) error {
	if broken, ok := errors.AsType[*trail.Break](err); ok {
		return f.damaged("audit trail: " + broken.Error())
	}
	return err
}

// selected is Trail for those entries whose stored texts has selects; all if has is nil. The last element
// may be a *trail.Break.
func (f *File) selected(from uint64, has func(texts []byte) bool) iter.Seq2[trail.Entry, error] {
	return trail.All(f.view, from, has)
}

// Verify verifies the audit trail. It compares it with heads that were kept elsewhere. The first fault
// of the trail is in the report; the error is that of ctx, or an [*Error] about the file.
func (f *File) Verify(ctx context.Context, known ...trail.Head) (report trail.Report, err error) {
	return trail.VerifyFile(ctx, f.view, known...)
}
