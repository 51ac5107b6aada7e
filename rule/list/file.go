// Package list reads the lists of rule files: addresses and values of requests that are exempt or denied.
package list

import (
	"net/http"

	"stint/rule"
)

// ParseNetworks reads a list of networks and addresses, one a line, in the notation of
// `cidrs: {file: NAME}`: it ignores blanks around an element, empty lines and lines that begin with #.
// name is the file's name, for messages. The result is an element of `deny` by the client's address.
// Any fault refuses the whole list; the error is a [*rule.Errors] with the first ten faults.
func ParseNetworks(name string, data []byte) (*rule.Listed, error) {
	networks := new(networkSet)
	faults := &rule.Errors{Files: []string{name}}
	for _, fault := range readList(data, networks) {
		faults.List = append(faults.List, &rule.Error{File: name, Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
	if err := faults.OrNil(); err != nil {
		return nil, err
	}
	return &rule.Listed{Name: name, Status: http.StatusForbidden, File: name, Set: networks, Networks: networks}, nil
}
