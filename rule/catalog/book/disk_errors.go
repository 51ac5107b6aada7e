package book

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"stint/internal/text"
)

// DiskError is an error of a file of rules.
type DiskError struct {
	Path    string // name of the file
	Problem string // what went wrong
	Hint    string // how to correct it
	Err     error  // the cause; may be nil
}

// Error returns the file and the problem, without the hint.
func (e *DiskError) Error() string { return e.Path + ": " + e.Problem }

// Unwrap returns the cause.
func (e *DiskError) Unwrap() error { return e.Err }

// ErrDamaged is wrapped by a [DiskError] about a damaged file.
var ErrDamaged = errors.New("damaged")

func (s *Disk) fault(problem, hint string, err error) *DiskError {
	return &DiskError{Path: s.path, Problem: problem, Hint: hint, Err: err}
}

func (s *Disk) damaged(how string) *DiskError {
	return s.fault("damaged: "+how, "look for a faulty disk or another writer; put back a copy of the file, or move it away and import the rules anew", ErrDamaged)
}

// opening returns the DiskError for an error of bbolt when opening the file.
func (s *Disk) opening(err error) *DiskError {
	if known, ok := errors.AsType[*DiskError](err); ok {
		return known
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return s.fault("in use by another process", "stop the other service, or give each a file of its own", err)
	case errors.Is(err, fs.ErrNotExist):
		return s.fault("cannot make it: its folder is not there", "make the folder, and let this user write in it", err)
	case errors.Is(err, fs.ErrPermission):
		return s.fault("cannot open it: permission denied", "let this user read and write the file, and write in its folder", err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return s.damaged("no file of rules, or its beginning was lost (" + err.Error() + ")")
	}
	if full := s.full(err); full != nil {
		return full
	}
	return s.fault("cannot open it: "+text.Cause(err), "check the disk and the file", err)
}

// writing returns the DiskError for an error of a write.
func (s *Disk) writing(err error) error {
	if known, ok := errors.AsType[*DiskError](err); ok {
		return known
	}
	if full := s.full(err); full != nil {
		return full
	}
	return s.fault("cannot write: "+text.Cause(err), "check the disk; the old rules stay in force", err)
}

// full returns the error for a full disk; nil if err is another error.
func (s *Disk) full(err error) *DiskError {
	switch {
	case isOne(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return s.fault("no room on the disk ("+text.Cause(err)+")", "make room: an import needs as much again as the file is large; what was there before stays in force", err)
	case isOne(err, syscall.EROFS):
		return s.fault("the disk is read-only", "name a file where this user may write", err)
	}
	return nil
}

// isOne reports whether err has one of these codes. It compares texts too, because bbolt returns
// some errors only as text.
func isOne(err error, codes ...syscall.Errno) bool {
	return slices.ContainsFunc(codes, func(code syscall.Errno) bool {
		return errors.Is(err, code) || strings.HasSuffix(err.Error(), code.Error())
	})
}

// guard calls do and returns a panic caused by a damaged file as an error. The file is mapped into
// memory, so a read error of the disk causes a memory fault.
func (s *Disk) guard(do func() error) error {
	return s.guardBut(new(bool), do)
}

// guardBut is guard, except for panics while outside is true, which come from other code.
func (s *Disk) guardBut(outside *bool, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if *outside {
			return // let the panic continue
		}
		if p := recover(); p != nil {
			err = s.damaged(fmt.Sprint(p))
		}
	}()
	return do()
}
