package dbfile

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

// ErrDamaged is wrapped by the Err of a Fault if the file is damaged.
var ErrDamaged = errors.New("damaged")

// Fault is what is wrong with a file, as an error.
type Fault struct {
	Problem string
	Hint    string // what to do
	Err     error  // the cause
	Disk    bool   // the disk refused a write or a read; the next one may succeed
	Full    bool   // there is no room on the disk
}

// Error returns the problem without the hint.
func (f *Fault) Error() string { return f.Problem }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Damaged returns the fault of a damaged file.
func Damaged(how string) *Fault {
	return &Fault{
		Problem: "damaged: " + how, Err: ErrDamaged,
		Hint: "look for a faulty disk or another writer; put back a copy of the file, or move it away and import the records anew",
	}
}

// Opening returns the fault for an error of bbolt when opening or reading the file; err itself if it
// is a fault.
func Opening(err error) *Fault {
	if known, ok := errors.AsType[*Fault](err); ok {
		return known
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return &Fault{Problem: "in use by another process", Hint: "stop the other service, or give each a file of its own", Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &Fault{Problem: "cannot create it: its folder does not exist", Hint: "create the folder, and let this user write in it", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &Fault{Problem: "cannot open it: permission denied", Hint: "let this user read and write the file, and write in its folder", Err: err}
	case strings.HasPrefix(err.Error(), "file size too small"): // bbolt has no value for it
		return Damaged("most of it is not there")
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return Damaged("no file of records, or its beginning was lost (" + err.Error() + ")")
	}
	return disk(err, "cannot open it")
}

// Writing returns the fault for an error of a write.
func Writing(err error) *Fault { return disk(err, "cannot write") }

// disk returns the fault for an error of the disk.
func disk(err error, what string) *Fault {
	switch {
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return &Fault{Problem: "closed", Hint: "open it again", Err: err}
	case isOne(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return &Fault{Problem: "no room on the disk (" + text.Cause(err) + ")", Hint: "make room; the records before this change stay in force", Err: err, Disk: true, Full: true}
	case isOne(err, syscall.EROFS):
		return &Fault{Problem: "the disk is read-only", Hint: "name a file where this user may write", Err: err, Disk: true}
	}
	return &Fault{Problem: what + ": " + text.Cause(err), Hint: "check the disk; the records before this change stay in force", Err: err, Disk: true}
}

// isOne reports whether err has one of these codes. It compares texts too, because bbolt returns
// some errors only as text.
func isOne(err error, codes ...syscall.Errno) bool {
	return slices.ContainsFunc(codes, func(code syscall.Errno) bool {
		return errors.Is(err, code) || strings.HasSuffix(err.Error(), code.Error())
	})
}

// Guard calls do and passes a panic caused by a damaged file to damaged, which returns the error. The
// file is mapped into memory, so a read error of the disk causes a memory fault.
func Guard(do func() error, damaged func(how string) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(fmt.Sprintf("a page is not there, or has other contents (%v)", p))
		}
	}()
	return do()
}
