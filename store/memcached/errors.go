package memcached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"stint"
	"stint/internal/text"
	"stint/store/memcached/meta"
)

// Error is why the server could not decide. It wraps stint.ErrUnknown, among others, if the call may
// have been charged.
type Error struct {
	Doing   string // what was being done, such as "decide"
	Problem string // what is wrong
	Hint    string // what to do
	Err     error  // the cause; nil: the server's own answer
}

// Error returns what was being done and what is wrong, without the hint.
func (e *Error) Error() string { return "memcached: cannot " + e.Doing + ": " + e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// explain returns an error of the client with what to do. charges reports that the commands charge, so
// that after a lost answer nobody knows whether they did.
func explain(doing string, err error, charges bool) error {
	e := &Error{Doing: doing, Problem: err.Error(), Err: err, Hint: "check that memcached runs, its address, and the network"}
	switch {
	case errors.Is(err, meta.ErrRejected):
		e.Hint = "check the user and the password of the URL, and memcached's file of -Y"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Hint = "check the server's load and the network; where both are well, raise --store-timeout"
	default:
		e.Problem = text.Cause(err)
	}
	if charges && !errors.Is(err, meta.ErrNotSent) {
		e.Err = fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	return e
}

// rejected returns the error about a command that the server refused. No problem: it answered another one.
func rejected(doing, problem string) error {
	e := &Error{Doing: doing, Problem: "the server answers " + cmp.Or(problem, "what does not belong to the command"), Hint: "use memcached 1.6.18 or later, and its text protocol"}
	switch {
	case strings.Contains(problem, "unauthenticated"):
		e.Hint = "write a user and a password of memcached's file of -Y into the URL: memcached://USER:PASSWORD@HOST:PORT"
	case strings.HasPrefix(strings.ToLower(problem), "server_error out of memory"): // counters have a capital O
		e.Hint = "give memcached more memory (-m): with -M it refuses what does not fit"
	}
	return e
}

// tooLarge returns the error about a state that does not fit into an item. Nothing was charged.
func tooLarge(name string, size int) error {
	return &Error{
		Doing: "decide", Problem: fmt.Sprintf("the state of %s has %d bytes, more than an item of memcached", name, size),
		Hint: "use sliding_window, which needs no entry for each request, or Redis",
	}
}

// notNumber reports whether memcached refused to count because the value is no number.
func notNumber(problem string) bool { return strings.Contains(problem, "non-numeric") }

// corrupt returns the error about takes whose states cannot be read, of which why is one.
func (s *Store) corrupt(why error, takes []int) error {
	return &Error{
		Doing: "decide", Problem: why.Error(), Err: &stint.CorruptState{Takes: takes},
		Hint: "see who else writes keys that begin with " + s.namespace + ": and remove the key (printf 'md KEY\\r\\n')",
	}
}
