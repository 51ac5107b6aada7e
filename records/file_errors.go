package records

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

// ErrDamaged is wrapped by an [Error] about a damaged file.
var ErrDamaged = errors.New("damaged")

func (f *File) fault(problem, hint string, err error) *Error {
	return &Error{Where: f.path, Problem: problem, Hint: hint, Err: err}
}

func (f *File) damaged(how string) *Error {
	return f.fault("damaged: "+how, "look for a faulty disk or another writer; put back a copy of the file, or move it away and import the records anew", ErrDamaged)
}

// opening returns the Error for an error of bbolt when opening or reading the file.
func (f *File) opening(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return f.fault("in use by another process", "stop the other service, or give each a file of its own", err)
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return f.fault("closed", "open it again", err)
	case errors.Is(err, fs.ErrNotExist):
		return f.fault("cannot create it: its folder does not exist", "create the folder, and let this user write in it", err)
	case errors.Is(err, fs.ErrPermission):
		return f.fault("cannot open it: permission denied", "let this user read and write the file, and write in its folder", err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return f.damaged("no file of records, or its beginning was lost (" + err.Error() + ")")
	}
	return f.disk(err, "cannot open it")
}

// writing returns the Error for an error of a write.
func (f *File) writing(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return f.fault("closed", "open it again", err)
	}
	failed := f.disk(err, "cannot write")
	f.failed.Store(failed)
	return failed
}

// disk returns the Error for an error of the disk.
func (f *File) disk(err error, what string) *Error {
	switch {
	case isOne(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return f.fault("no room on the disk ("+text.Cause(err)+")", "make room; the records before this change stay in force", err)
	case isOne(err, syscall.EROFS):
		return f.fault("the disk is read-only", "name a file where this user may write", err)
	}
	return f.fault(what+": "+text.Cause(err), "check the disk; the records before this change stay in force", err)
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
func (f *File) guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = f.damaged(fmt.Sprint(p))
		}
	}()
	return do()
}
