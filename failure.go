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

// callErrors are the errors about a call that no store can decide, however well it is, and
// of a store that never decides any.
var callErrors = [...]error{ErrNoStore, ErrNoLimit, ErrNoKey, ErrMixedLimits, ErrSource, ErrNoUndo, ErrTime}

// WrongCall says whether an error of a store is about the call: nothing was charged,
// no store would have decided it, and no failure policy answers for it.
func WrongCall(err error) bool {
	for _, wrong := range callErrors {
		if errors.Is(err, wrong) {
			return true
		}
	}
	return false
}
