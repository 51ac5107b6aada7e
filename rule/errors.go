package rule

import (
	"fmt"
	"strings"
)

// Error is one fault of a rule file: where it is, what is wrong, what to do.
type Error struct {
	File    string
	Line    int // 0 where the fault is in no line
	Problem string
	Hint    string
	Err     error // what the system said where a file cannot be read; else nil
}

// Unwrap returns what the system said.
func (e *Error) Unwrap() error { return e.Err }

// Error returns the place and the problem, and the hint on a line of its own.
func (e *Error) Error() string {
	text := Place(e.File, e.Line) + ": " + e.Problem
	if e.Hint != "" {
		text += "\n  hint: " + e.Hint
	}
	return text
}

// Place returns a line of a file as messages name it; line 0 is the file as a whole.
func Place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// Errors is every fault that was found, in the order of files and lines. Package
// rulefile returns one whenever it returns an error, so that a
// program can show each fault in its own way:
//
//	var faults *rule.Errors
//	if errors.As(err, &faults) {
//		for _, fault := range faults.List { ... }
//	}
type Errors struct {
	List []*Error

	// Files are those of lists and keys that were read beside the rule files: what is
	// wrong may be in one of them.
	Files []string
}

// Error returns all faults, one after the other.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, one := range e.List {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults for errors.As.
func (e *Errors) Unwrap() []error {
	errs := make([]error, len(e.List))
	for i, one := range e.List {
		errs[i] = one
	}
	return errs
}

// OrNil returns nil for no fault, else the faults as an error.
func (e *Errors) OrNil() error {
	if len(e.List) == 0 {
		return nil
	}
	return e
}

// Warning is something that a rule file may say but probably does not mean, or that
// costs more than one would think, found while it was read. Package rule/audit finds more.
type Warning struct {
	ID   string // what kind of warning, the same in all versions
	File string
	Line int
	Rule string // name of the rule, "" where it concerns none
	Text string
	Hint string
}

// String returns the place and the text, and the hint on a line of its own.
func (w Warning) String() string {
	e := Error{File: w.File, Line: w.Line, Problem: w.Text, Hint: w.Hint}
	return e.Error()
}

// Warnings returns what is accepted but should be looked at, in the order of the
// files.
func (t *Table) Warnings() []Warning { return t.warnings }
