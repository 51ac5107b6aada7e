package book

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"stint/internal/text"
	"stint/rule"
	"stint/rule/catalog"
)

// MaxFaults is the number of faults that are reported in full; the others are only counted.
const MaxFaults = 20

// maxCounted is the number of faults after which reading stops: a file with an error in every line
// is probably the wrong file.
const maxCounted = 1000

// Format is the format of a file of rules.
type Format uint8

// The formats.
const (
	CSV           Format = iota + 1 // one rule in each line, in columns
	JSONLines                       // one rule in each line, as a JSON object
	RateLimiter4j                   // YAML or JSON, grouped by application
)

// FormatOf returns the format of a file by its extension: .csv; .jsonl and .ndjson; .yaml, .yml and
// .json for ratelimiter4j.
func FormatOf(name string) (Format, bool) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV, true
	case ".jsonl", ".ndjson":
		return JSONLines, true
	case ".yaml", ".yml", ".json":
		return RateLimiter4j, true
	}
	return 0, false
}

// ReadFiles returns the rules of files in order. If the files have faults, the last element is an
// error, an [*rule.Errors]. Each iteration reads the files again.
//
// The caller passes the rules to a catalog, which checks each rule and finds duplicate IDs;
// [Explain] returns the places of such faults. That halves the time for a million rules.
func ReadFiles(names ...string) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		c := newCollector(yield)
		c.trusting = true
		c.openAll(names)
		if len(c.faults.List) == 0 {
			return
		}
		if all := checked(names); len(all.List) > 0 { // otherwise the files were corrected meanwhile
			c.faults = *all
		}
		c.yieldError(&c.faults)
	}
}

// checked returns the faults of the rules of files, checking each rule by itself.
func checked(names []string) *rule.Errors {
	c := newCollector(func(catalog.Rule, error) bool { return true })
	c.openAll(names)
	c.count()
	return &c.faults
}

// Explain returns all faults of the rules of files with their places, after a catalog refused one
// of the rules. If each rule is valid by itself, it returns the place of the refused rule, which
// conflicts with another one. The error is an [*rule.Errors].
func Explain(refused *catalog.Error, names ...string) error {
	if all := checked(names); len(all.List) > 0 {
		return all
	}
	at := &rule.Error{Problem: "rule " + refused.ID + ": " + refused.Problem, Hint: refused.Hint}
	c := newCollector(func(catalog.Rule, error) bool { return true })
	c.trusting = true
	c.looked = func(line int, id string) {
		if id == refused.ID && at.File == "" {
			at.File, at.Line = c.name, line
		}
	}
	c.openAll(names)
	return &rule.Errors{List: []*rule.Error{at}}
}

// ReadRules returns the rules that r contains; name is used in errors. If there are faults, the
// last element is an error: an [*rule.Errors], or the wrapped error of r. It can be iterated once.
func ReadRules(name string, format Format, r io.Reader) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		c := newCollector(yield)
		c.name = name
		if err := c.read(format, r); err != nil {
			c.yieldError(fmt.Errorf("reading rules: %w", err))
			return
		}
		c.count()
		if len(c.faults.List) > 0 {
			c.yieldError(&c.faults)
		}
	}
}

// errStopped means that the caller has ended the iteration.
var errStopped = errors.New("stopped")

// collector yields rules until the first fault, and then only collects faults.
type collector struct {
	name   string // name of the current file
	yield  func(catalog.Rule, error) bool
	looked func(line int, id string) // called for each rule if not nil

	// trusting leaves the checks of rules to the catalog and stops at the first fault.
	trusting bool

	faults rule.Errors
	more   int // number of faults above MaxFaults
	ended  bool
	ids    seen
}

func newCollector(yield func(catalog.Rule, error) bool) *collector {
	return &collector{yield: yield, ids: newSeen()}
}

// openAll reads files.
func (c *collector) openAll(names []string) {
	for _, name := range names {
		c.name = name
		if !c.open(name) {
			return
		}
	}
}

// open reads a file. It returns false after the caller ended the iteration.
func (c *collector) open(name string) bool {
	format, ok := FormatOf(name)
	if !ok {
		c.fail(0, "not known how to read this file", "its name must end in .csv, .jsonl, or .yaml, .yml or .json for the files of ratelimiter4j")
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		c.note(&rule.Error{Problem: "cannot read it: " + text.Cause(err), Hint: "check the path and its permissions", Err: err})
		return true
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	before, _ := f.Stat()
	if err := c.read(format, f); err != nil && !errors.Is(err, errStopped) {
		c.fail(0, "cannot read it: "+text.Cause(err), "name a file that this user may read, not a folder")
	}
	if after, _ := f.Stat(); changed(before, after) {
		c.fail(0, "it changed while it was read", "write it under another name and rename it, so that no reader sees half of it")
	}
	return !c.ended && !(c.trusting && len(c.faults.List) > 0)
}

// changed reports whether a file was written between two Stats; false if a Stat is nil.
func changed(before, after fs.FileInfo) bool {
	return before != nil && after != nil && (before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()))
}

// read reads rules in a format. It returns the error of r.
func (c *collector) read(format Format, r io.Reader) error {
	switch format {
	case CSV:
		return readCSV(c, r)
	case JSONLines:
		return readLines(c, r)
	default:
		return readConfigs(c, r)
	}
}

// rule handles the rule in a line. After an error the caller must stop.
func (c *collector) rule(line int, r catalog.Rule) error {
	if c.looked != nil {
		c.looked(line, r.ID)
	}
	if c.trusting {
		return c.hand(r)
	}
	if err := r.Check(); err != nil {
		c.wrong(line, err)
		return nil
	}
	if before, twice := c.ids.add(r.ID, c.name, line); twice {
		c.fail(line, fmt.Sprintf("the rule %s stands twice, first in %s", text.Quote(r.ID), before), "give each rule an id of its own")
		return nil
	}
	return c.hand(r)
}

// hand yields a rule.
func (c *collector) hand(r catalog.Rule) error {
	if len(c.faults.List) > 0 {
		if c.trusting { // the complete check finds the other faults
			return errStopped
		}
		return nil
	}
	if !c.yield(r, nil) {
		c.ended = true
		return errStopped
	}
	return nil
}

// wrong adds the fault that a check returned.
func (c *collector) wrong(line int, err error) {
	problem, hint := err.Error(), ""
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		if problem, hint = e.Problem, e.Hint; e.Field != "" {
			problem = e.Field + ": " + problem
		}
	}
	c.fail(line, problem, hint)
}

// fail adds a fault in a line; 0 for no line.
func (c *collector) fail(line int, problem, hint string) {
	c.note(&rule.Error{Line: line, Problem: problem, Hint: hint})
}

// note adds a fault of the current file.
func (c *collector) note(fault *rule.Error) {
	if len(c.faults.List) >= MaxFaults {
		c.more++
		return
	}
	fault.File = c.name
	c.faults.List = append(c.faults.List, fault)
}

// enough reports whether there are so many faults that reading should stop.
func (c *collector) enough() bool { return len(c.faults.List)+c.more > maxCounted }

// count adds the number of faults that are not listed.
func (c *collector) count() {
	if c.more > 0 {
		problem := fmt.Sprintf("and %d more faults", c.more)
		if c.enough() {
			problem = fmt.Sprintf("and more than %d more faults", c.more-1)
		}
		c.faults.List = append(c.faults.List, &rule.Error{File: c.name, Problem: problem, Hint: "correct the listed faults and try again"})
	}
}

func (c *collector) yieldError(err error) {
	if !c.ended {
		c.yield(catalog.Rule{}, err)
	}
}
