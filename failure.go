package stint

import (
	"errors"
	"fmt"
)

// Failure is what to do with a take when the store cannot decide it.
type Failure uint8

// The failure policies.
const (
	// Allow lets the take pass, marked degraded. It is the default.
	Allow Failure = iota

	// Deny denies it.
	Deny

	// Local decides by Handling.Local in this process. It denies if that is nil.
	Local

	// Fail makes the call fail with the error of the store. No rule has this policy; nodes use it
	// for their own messages to the store.
	Fail
)

// String returns the word for it in rule files, and "fail" for Fail.
func (f Failure) String() string { return [...]string{"allow", "deny", "local", "fail"}[f] }

// CorruptState is the error for keys whose states cannot be read, because another program or
// another release wrote them. The store itself works. Takes that are decided together with one of
// these keys were not decided and charged nothing. All other takes of the call were decided, and
// their results are valid.
type CorruptState struct {
	Takes []int // indexes in the call, in order; at least one
}

// Error lists the takes.
func (e *CorruptState) Error() string {
	return fmt.Sprintf("the states of takes %d cannot be read", e.Takes)
}

// ErrWrongCall matches, by errors.Is, all errors of a store about the call itself, or about a
// store that can never decide. Nothing was charged, no store would have decided the call, and no
// failure policy applies.
var ErrWrongCall = errors.New("wrong call")

// wrongCall is the text of an error that matches ErrWrongCall.
type wrongCall struct{ text string }

func (e *wrongCall) Error() string { return e.text }

// Is makes errors.Is match ErrWrongCall.
func (e *wrongCall) Is(target error) bool { return target == ErrWrongCall }
