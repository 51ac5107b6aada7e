package queue

import (
	"context"
	"io"
	"time"
)

// Storage keeps records. It is safe for concurrent use. Its methods may block for as long as a disk or a
// server takes, until ctx is done. Every change is durable when its method returns nil: it survives a
// kill -9 of this process. After Close calls fail.
type Storage struct {
	Lines
	Records
	io.Closer
}

// Lines is the order of the records.
type Lines interface {
	// Put stores a waiting record at the end of its line, and returns its place in the line, 1 for the
	// first. The error wraps ErrFull if the bounds do not allow it.
	Put(ctx context.Context, e *Entry, b Bounds) (place int, err error)

	// Holds reports whether a line has an unfinished record.
	Holds(ctx context.Context, line string) (bool, error)

	// Claim claims the first record that is due, for a worker and a time: a waiting one that is the first
	// of its line, or a claimed one whose claim ran out. A claim that ran out while the record was being
	// sent counts as a try. Claim returns nil if none is due, and after which time one will be; negative
	// for never.
	Claim(ctx context.Context, worker string, lease time.Duration) (e *Entry, next time.Duration, err error)

	// Renew extends a claim, so that it lasts for lease from now. sending becomes the Sending of the entry.
	// The error wraps ErrLost if the worker does not have the claim any more.
	Renew(ctx context.Context, id, worker string, lease time.Duration, sending bool) error
}

// Records is access to records by their ID.
type Records interface {
	// Get returns a record. The error wraps ErrUnknown if there is none.
	Get(ctx context.Context, id string) (*Entry, error)

	// Change changes a record, or does nothing if change returns an error, which Change then returns.
	// change may be called several times, must be quick, and must call no method of the storage. It may
	// set State, At, Ended, Tries, Claimer, Reason, Sending and Answer; Answer is nil when it is called,
	// and replaces the stored answer unless it is nil. A storage drops the request of a record that is
	// not counted any more, the answer of one that is gone, and all of one that is removed. A record that
	// becomes unfinished again goes to the end of its line.
	Change(ctx context.Context, id string, change func(e *Entry) error) error

	// List returns up to limit records of a state without Data and Answer: finished ones by At, others by
	// Made, and then by their ID; those after the entry after, which is nil for the beginning.
	List(ctx context.Context, s State, after *Entry, limit int) ([]*Entry, error)

	// Stats returns numbers by rule.
	Stats(ctx context.Context) (map[string]Stats, error)
}
