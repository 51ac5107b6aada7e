package transaction

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stint"
)

// Peek makes a take a peek, which changes nothing.
func Peek(t *stint.Take) { t.Op, t.Cost, t.Undo = stint.Ask, 0, nil }

// Undecodable returns the part of an error that names takes whose states cannot be read; nil where it
// names none, or where it is unknown whether the call was charged. All other takes were decided.
func Undecodable(err error) *stint.CorruptState {
	said, ok := errors.AsType[*stint.CorruptState](err)
	if !ok || len(said.Takes) == 0 || errors.Is(err, stint.ErrUnknown) {
		return nil
	}
	return said
}

// Decided says whether take number i of a call was decided, so that its result stands, where the
// store returned this error. Nil: all takes were.
func Decided(call *stint.Call, said *stint.CorruptState, i int) bool {
	if said == nil {
		return true
	}
	first := i
	for j := range i {
		if j+int(call.Takes[j].Borrows) >= i {
			first = j // it is leaned on
			break
		}
	}
	last := first + int(call.Takes[first].Borrows)
	return !slices.ContainsFunc(said.Takes, func(n int) bool {
		if n < 0 || n >= len(call.Takes) {
			return true // nobody knows what that is
		}
		return first <= n && n <= last || !call.Takes[i].Independent && !call.Takes[n].Independent
	})
}

// Renumber turns an error about a part of a call into one about the whole call: of[n] is the number
// there of take n of the part; below 0: it has none. Errors that name no takes are returned as they are.
func Renumber(err error, of []int) error {
	said, ok := errors.AsType[*stint.CorruptState](err)
	if !ok {
		return err
	}
	var takes []int
	for _, n := range said.Takes {
		if n >= 0 && n < len(of) && of[n] >= 0 {
			takes = append(takes, of[n])
		}
	}
	if takes == nil { // what cannot be read is nobody's: nothing was decided
		takes = slices.DeleteFunc(slices.Clone(of), func(i int) bool { return i < 0 })
	}
	return WithTakes(err, takes)
}

// WithTakes returns err with other takes whose states cannot be read.
func WithTakes(err error, takes []int) error {
	takes = slices.Clone(takes)
	slices.Sort(takes)
	return &named{err, &stint.CorruptState{Takes: slices.Compact(takes)}}
}

// named is an error with other takes.
type named struct {
	err   error
	takes *stint.CorruptState
}

// Error says which takes of the whole.
func (e *named) Error() string {
	text := e.err.Error()
	if said, ok := errors.AsType[*stint.CorruptState](e.err); ok {
		text = strings.ReplaceAll(text, said.Error(), e.takes.Error())
	}
	return text
}

// Unwrap returns the error about the part.
func (e *named) Unwrap() error { return e.err }

// As finds the takes of the whole, before those of the part.
func (e *named) As(target any) bool {
	takes, ok := target.(**stint.CorruptState)
	if ok {
		*takes = e.takes
	}
	return ok
}

// WithoutTakes returns an error that names no takes: for a call that was not decided as a whole, or
// of which it is unknown.
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
