package stint

import "errors"

// Failure says what answers a take when the store cannot.
type Failure uint8

// The failure policies.
const (
	// Allow lets the take pass, marked degraded. The default.
	Allow Failure = iota

	// Deny refuses it.
	Deny

	// Local decides by Take.Local in this process. Where that is nil it is Deny.
	Local
)

// String returns the word of the rule file.
func (f Failure) String() string { return [...]string{"allow", "deny", "local"}[f] }

// callErrors are the errors about a call that no store can decide, however well it is.
var callErrors = [...]error{ErrNoLimit, ErrNoKey, ErrMixedLimits, ErrLeans, ErrNoUndo, ErrTime}

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
