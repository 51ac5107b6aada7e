package transaction

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stint"
)

// Peek turns a take into a peek, which changes nothing.
func Peek(t *stint.Take) { t.Op, t.Cost, t.Undo = stint.Ask, 0, nil }

// Undecodable returns the CorruptState of an error. It returns nil if there is none, it lists no
// takes, or the call may have been charged. All takes of other groups were decided.
func Undecodable(err error) *stint.CorruptState {
	corrupt, ok := errors.AsType[*stint.CorruptState](err)
	if !ok || len(corrupt.Takes) == 0 || errors.Is(err, stint.ErrUnknown) {
		return nil
	}
	return corrupt
}

// Decided reports whether take i of a call was decided, so that its result is valid, by the
// CorruptState of the store's error. If that is nil all takes were.
func Decided(call *stint.Call, corrupt *stint.CorruptState, i int) bool {
	if corrupt == nil {
		return true
	}
	first := i
	for j := range i {
		if j+int(call.Takes[j].Borrows) >= i {
			first = j // it is a source of take j
			break
		}
	}
	last := first + int(call.Takes[first].Borrows)
	return !slices.ContainsFunc(corrupt.Takes, func(n int) bool {
		if n < 0 || n >= len(call.Takes) {
			return true // no take of the call: nothing is certain
		}
		return first <= n && n <= last || !call.Takes[i].Independent && !call.Takes[n].Independent
	})
}

// Denied reports whether a take of a decided call denies all that are not Independent. Sources deny
// nobody.
func Denied(call *stint.Call) bool {
	for i := 0; i < len(call.Takes); i += 1 + int(call.Takes[i].Borrows) {
		if !call.Takes[i].Independent && !call.Results[i].Allowed {
			return true
		}
	}
	return false
}

// Renumber turns an error about a part of a call into one about the whole call: of[n] is the index
// there of take n of the part; below 0: none. It returns errors that list no takes unchanged.
func Renumber(err error, of []int) error {
	corrupt, ok := errors.AsType[*stint.CorruptState](err)
	if !ok {
		return err
	}
	var takes []int
	for _, n := range corrupt.Takes {
		if n >= 0 && n < len(of) && of[n] >= 0 {
			takes = append(takes, of[n])
		}
	}
	if takes == nil { // none of the whole call: nothing was decided
		takes = slices.DeleteFunc(slices.Clone(of), func(i int) bool { return i < 0 })
	}
	return WithTakes(err, takes)
}

// WithTakes returns err with another list of takes whose states cannot be read.
func WithTakes(err error, takes []int) error {
	takes = slices.Clone(takes)
	slices.Sort(takes)
	return &named{err, &stint.CorruptState{Takes: slices.Compact(takes)}}
}

// named is an error with another list of takes.
type named struct {
	err   error
	takes *stint.CorruptState
}

// Error returns the text of the error with the takes of the whole call.
func (e *named) Error() string {
	text := e.err.Error()
	if corrupt, ok := errors.AsType[*stint.CorruptState](e.err); ok {
		text = strings.ReplaceAll(text, corrupt.Error(), e.takes.Error())
	}
	return text
}

// Unwrap returns the error about the part.
func (e *named) Unwrap() error { return e.err }

// As returns the takes of the whole call, not those of the part.
func (e *named) As(target any) bool {
	takes, ok := target.(**stint.CorruptState)
	if ok {
		*takes = e.takes
	}
	return ok
}

// WithoutTakes returns an error without a list of takes: for a call that was not decided as a
// whole, or that may have been charged.
func WithoutTakes(err error) error {
	_, ok := errors.AsType[*stint.CorruptState](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, stint.ErrUnknown):
		return fmt.Errorf("%w: %s", stint.ErrUnknown, err.Error())
	}
	return errors.New(err.Error())
}
