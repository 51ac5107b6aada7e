package records

import (
	"context"
	"errors"

	"stint/records/dbfile"
	"stint/records/replication"
)

// ErrDamaged is wrapped by an [Error] about a damaged file.
var ErrDamaged = dbfile.ErrDamaged

func (f *File) fault(problem, hint string, err error) *Error {
	return &Error{Where: f.path, Problem: problem, Hint: hint, Err: err}
}

func (f *File) faultOf(d *dbfile.Fault) *Error { return f.fault(d.Problem, d.Hint, d.Err) }

func (f *File) damaged(how string) error { return f.faultOf(dbfile.Damaged(how)) }

// opening returns the Error for an error of bbolt when opening or reading the file.
func (f *File) opening(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return f.faultOf(dbfile.Opening(err))
}

// writing returns the Error for an error of a write.
func (f *File) writing(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if later, ok := errors.AsType[*replication.UnavailableError](err); ok {
		return unavailable(later)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	fault := dbfile.Writing(err)
	failed := f.faultOf(fault)
	if fault.Disk {
		f.failed.Store(failed)
	}
	return failed
}

// guard calls do and returns a panic caused by a damaged file as an error.
func (f *File) guard(do func() error) (err error) { return dbfile.Guard(do, f.damaged) }
