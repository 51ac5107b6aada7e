// Package partly helps stores that divide calls with what is not decided of them: takes that
// only look, and those of keys whose states cannot be read (see [stint.CorruptState]).
package partly

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stint"
)

// Look makes a look of a take, which charges and changes nothing.
func Look(t *stint.Take) { t.Op, t.Cost, t.Undo = stint.Ask, 0, nil }

// Said returns what an error says of states that cannot be read: nil where it says nothing of
// them, or that it is unknown what became of the call.
func Said(err error) *stint.CorruptState {
	said, ok := errors.AsType[*stint.CorruptState](err)
	if !ok || len(said.Takes) == 0 || errors.Is(err, stint.ErrUnknown) {
		return nil
	}
	return said
}

// Decided says whether take number i of a call was decided of which this is said, so that its
// result stands. Nil: all were.
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

// Renumbered returns an error about a part of a call as one about the whole, of which number
// of[n] is take n of the part; below 0, or not there: none is. What says nothing of states is returned as it is.
func Renumbered(err error, of []int) error {
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
	return Named(err, takes)
}

// Named returns an error that says the same as err, and of states that it is those of these
// takes that cannot be read.
func Named(err error, takes []int) error {
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

// Muted returns an error that names no takes: for a call of which nobody knows any more what
// became of it.
func Muted(err error) error {
	_, ok := errors.AsType[*stint.CorruptState](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, stint.ErrUnknown):
		return fmt.Errorf("%w: %s", stint.ErrUnknown, err.Error())
	}
	return errors.New(err.Error())
}
