package rule

import (
	"fmt"
	"strings"
)

// Error is one fault of a rule file: the place, the problem and what to do.
type Error struct {
	File    string
	Line    int // 0 if the fault is in no particular line
	Problem string
	Hint    string
	Err     error // the system's error if a file cannot be read, else nil
}

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// Error returns the place and the problem, and on a second line the hint.
func (e *Error) Error() string {
	text := Place(e.File, e.Line) + ": " + e.Problem
	if e.Hint != "" {
		text += "\n  hint: " + e.Hint
	}
	return text
}

// Place returns FILE:LINE for messages, or FILE alone for line 0.
func Place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// Errors is all faults of a set of rule files, ordered by file and line. Every error of package
// rulefile is one, so a program can show each fault in its own way:
//
//	var faults *rule.Errors
//	if errors.As(err, &faults) {
//		for _, fault := range faults.List { ... }
//	}
type Errors struct {
	List []*Error

	// Files are the files of lists and keys that were read besides the rule files. A fault may be
	// in one of them, so a program that watches files watches these too.
	Files []string
}

// Error returns all faults, one per line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, one := range e.List {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for errors.As.
func (e *Errors) Unwrap() []error {
	errs := make([]error, len(e.List))
	for i, one := range e.List {
		errs[i] = one
	}
	return errs
}

// OrNil returns nil if there is no fault, else e.
func (e *Errors) OrNil() error {
	if len(e.List) == 0 {
		return nil
	}
	return e
}

// Warning is something in a rule file that is allowed but probably not meant, or that is
// expensive. The reader found it; package rule/audit finds more.
type Warning struct {
	ID   string // the kind of warning; stable between versions
	File string
	Line int
	Rule string // name of the rule, "" if it concerns none
	Text string
	Hint string
}

// String returns the place and the text, and on a second line the hint.
func (w Warning) String() string {
	e := Error{File: w.File, Line: w.Line, Problem: w.Text, Hint: w.Hint}
	return e.Error()
}

// Warnings returns the warnings of the table, ordered by file and line.
func (t *Table) Warnings() []Warning { return t.warnings }
