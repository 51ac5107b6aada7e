package partly

import "errors"

// ServerError is an error of a store of several servers that says which of them failed.
type ServerError struct {
	// Servers are the numbers of those that failed.
	Servers []int

	// Whole says that nothing of the call is charged on the others: they can be asked for a
	// call without what lies on those that failed.
	Whole bool

	// Err is what failed.
	Err error
}

// Error says what Err does.
func (e *ServerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// Failed returns what an error says of servers that failed, nil for nothing.
func Failed(err error) *ServerError {
	if said, ok := errors.AsType[*ServerError](err); ok && len(said.Servers) > 0 {
		return said
	}
	return nil
}
