package stint

import (
	"errors"
	"fmt"
)

// Failure says what answers a take when the store cannot.
type Failure uint8

// The failure policies.
const (
	// Allow lets the take pass, marked degraded. The default.
	Allow Failure = iota

	// Deny refuses it.
	Deny

	// Local decides by Handling.Local in this process. Where that is nil it is Deny.
	Local

	// Fail answers nothing: the call fails with the error of the store. It is no policy of a
	// rule, but for what a node tells the store in its own name.
	Fail
)

// String returns the word of the rule file, "fail" for what stands in none.
func (f Failure) String() string { return [...]string{"allow", "deny", "local", "fail"}[f] }

// CorruptState says that the states of some keys cannot be read: somebody else wrote under
// their names, or another release did. The store itself is well. Takes that are decided as one
// with one of these were not decided, and charged nothing; all others of the call were, and
// their results stand.
type CorruptState struct {
	Takes []int // of the call, in order; at least one
}

// Error says which takes.
func (e *CorruptState) Error() string {
	return fmt.Sprintf("the states of takes %d cannot be read", e.Takes)
}

// ErrWrongCall is what an error of a store is (see errors.Is) that is about the call, or says that
// the store never decides any: nothing was charged, no store would have decided it, and no failure
// policy answers for it.
var ErrWrongCall = errors.New("wrong call")

// wrongCall is the text of an error that is ErrWrongCall.
type wrongCall struct{ text string }

func (e *wrongCall) Error() string { return e.text }

// Is makes errors.Is find ErrWrongCall.
func (e *wrongCall) Is(target error) bool { return target == ErrWrongCall }
