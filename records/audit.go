package records

import (
	"context"
	"encoding/json"
	"iter"
	"time"

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

// Note writes one entry to the audit trail. When it returns without an error, the entry is on disk.
func (f *File) Note(ctx context.Context, e Event, now time.Time) error {
	return f.fault("cannot write to the audit trail yet", "", nil)
}

// Trail returns the entries of the audit trail from a number on, oldest first. It starts with the first
// entry that is kept if that is later. It reads in pages, so that a slow caller delays no change. The
// last element may be an [*Error].
func (f *File) Trail(from uint64) iter.Seq2[trail.Entry, error] {
	return func(func(trail.Entry, error) bool) {}
}

// Head returns the number and the hash of the last entry of the audit trail; 0 and 64 zeros if there is
// none. Operators keep it elsewhere, so that Verify can find that later entries were cut off.
func (f *File) Head() (number uint64, hash string) {
	return 0, trail.Hash{}.String()
}

// Verify verifies the audit trail. It compares it with heads that were kept elsewhere. The first fault
// of the trail is in the report; the error is that of ctx, or an [*Error] about the file.
func (f *File) Verify(ctx context.Context, known ...trail.Head) (trail.Report, error) {
	return trail.Verify(trail.Head{}, f.Trail(1), known...)
}

// Erased is what Erase erased.
type Erased struct {
	Outcome
	Records  int // records of the subject that were deleted
	Entries  int // entries of the audit trail whose texts were erased
	Mentions int // other records and entries whose texts contain the name of the subject; they are kept
}

// Erase deletes the records of a subject: its own, its overrides, its bans and its API keys. It erases
// the texts of all entries of the audit trail that are about the subject, and adds one that does not
// name it. Overrides with a pattern are kept.
//
// The subject is an entry such as user=42, or a network such as 192.0.2.7/32 as in the bans.
func (f *File) Erase(ctx context.Context, subject string, by Actor, now time.Time) (Erased, error) {
	return Erased{}, f.fault("cannot erase a subject yet", "", nil)
}

// Export returns all that is kept of a subject: its records, and the entries of the audit trail that
// are about it, oldest first. The last entry may come with an [*Error].
func (f *File) Export(subject string) ([]Entry, iter.Seq2[trail.Entry, error], error) {
	return nil, f.Trail(1), nil
}

// Status is the state of the records, for those who operate them.
type Status struct {
	Revision uint64        // of the last change that is in force here
	Age      time.Duration // how long ago this was certainly the last change; 0 for a file without a shared log
	Nodes    []NodeStatus  // all that share the records, by name; none for a file without a shared log
	Error    string        // why no change can be made now; "" if it can
}

// NodeStatus is what a node has of the records.
type NodeStatus struct {
	Name     string
	Revision uint64    // of the last change that is in force there
	Seen     time.Time // when it last said so
}

// Status returns the state of the records at a time.
func (f *File) Status(now time.Time) Status {
	revision, err := f.Revision()
	s := Status{Revision: revision}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}
