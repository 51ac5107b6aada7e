package transaction

import "errors"

// ServerError is an error of a store of several servers that says which of them failed.
type ServerError struct {
	// Servers are the numbers of those that failed.
	Servers []int

	// Whole says that nothing of the call is charged on the others: they can decide the call
	// without the takes of those that failed.
	Whole bool

	// Err is what failed.
	Err error
}

// Error says what Err does.
func (e *ServerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// FailedServers returns the part of an error that names servers that failed; nil where it names none.
func FailedServers(err error) *ServerError {
	if said, ok := errors.AsType[*ServerError](err); ok && len(said.Servers) > 0 {
		return said
	}
	return nil
}
