package transaction

import "errors"

// ServerError is an error of a store with several servers that lists the failed ones.
type ServerError struct {
	// Servers are the numbers of the failed servers.
	Servers []int

	// RestUncharged means that nothing of the call is charged on the other servers: these can
	// decide the call without the takes of the failed ones.
	RestUncharged bool

	// Err is the cause.
	Err error
}

// Error returns the text of Err.
func (e *ServerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// FailedServers returns the ServerError of an error, nil if it has none or that lists no server.
func FailedServers(err error) *ServerError {
	if serverErr, ok := errors.AsType[*ServerError](err); ok && len(serverErr.Servers) > 0 {
		return serverErr
	}
	return nil
}

// MarkRestUncharged marks an error: the servers that it does not list charged nothing.
func MarkRestUncharged(err error) error {
	if serverErr := FailedServers(err); serverErr != nil {
		serverErr.RestUncharged = true
	}
	return err
}

// UnmarkRestUncharged removes that mark.
func UnmarkRestUncharged(err error) error {
	if serverErr := FailedServers(err); serverErr != nil {
		serverErr.RestUncharged = false
	}
	return err
}
