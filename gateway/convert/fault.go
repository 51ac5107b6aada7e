package convert

import (
	"fmt"
	"strings"
)

// A Fault is one thing that cannot be converted.
type Fault struct {
	File string
	Line int
	Text string // what is wrong
	Hint string // what to do
}

// String returns the fault as one line with its place and its hint.
func (f Fault) String() string {
	return fmt.Sprintf("%s:%d: %s; %s", f.File, f.Line, f.Text, f.Hint)
}

// Faults is the error of a Caddyfile that cannot be converted. It has at least one element.
type Faults []Fault

// Error returns the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}
