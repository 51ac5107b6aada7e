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

// MaxFaults is how many faults are reported; of more, only their number is.
const MaxFaults = 20

// maxCounted is after how many faults nobody reads on: a file of which every line is wrong
// is another file.
const maxCounted = 1000

// Format is how rules are written.
type Format uint8

// The formats.
const (
	CSV           Format = iota + 1 // a rule in each line, columns
	JSONLines                       // a rule in each line, an object
	RateLimiter4j                   // YAML or JSON, by application
)

// FormatOf returns the format of a file by the end of its name: .csv; .jsonl and
// .ndjson; .yaml, .yml and .json, which are ratelimiter4j's.
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

// ReadFiles returns the rules of files, in their order. Where they cannot be read, the last
// that it yields is an error, an [*rule.Errors]. Each use of it reads the files anew.
//
// It is made for a catalog, and leaves to it whether each rule is right and no id stands
// twice: [Explain] says where. That halves the time of a million rules.
func ReadFiles(names ...string) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		c := newCollector(yield)
		c.trusting = true
		c.openAll(names)
		if len(c.faults.List) == 0 {
			return
		}
		if all := checked(names); len(all.List) > 0 { // else they have been mended just now
			c.faults = *all
		}
		c.yieldError(&c.faults)
	}
}

// checked returns all that is wrong with the rules of files, each by itself.
func checked(names []string) *rule.Errors {
	c := newCollector(func(catalog.Rule, error) bool { return true })
	c.openAll(names)
	c.count()
	return &c.faults
}

// Explain returns all that is wrong with the rules of files, with the place of each, where
// a catalog has refused one of them: that, if it is right by itself and only clashes with
// another one. The error is an [*rule.Errors].
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

// ReadRules returns the rules that r holds; name stands for it in errors. Where anything is
// wrong with them, the last that it yields is an error: an [*rule.Errors], or that of
// r, wrapped. It can be used once.
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

// errStopped says that whoever uses the rules wants no more of them.
var errStopped = errors.New("stopped")

// collector hands rules on until the first fault, and collects faults from then on.
type collector struct {
	name   string // of the file that is being read
	yield  func(catalog.Rule, error) bool
	looked func(line int, id string) // where wanted, told of every rule

	// trusting leaves it to others to check rules, and stops at the first fault.
	trusting bool

	faults rule.Errors
	more   int // faults above MaxFaults
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

// open reads a file. It returns false once nobody wants more rules.
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
	defer f.Close() //nolint:errcheck // nothing was written
	before, _ := f.Stat()
	if err := c.read(format, f); err != nil && !errors.Is(err, errStopped) {
		c.fail(0, "cannot read it: "+text.Cause(err), "name a file that this user may read, not a folder")
	}
	if after, _ := f.Stat(); changed(before, after) {
		c.fail(0, "it changed while it was read", "write it under another name and rename it, so that nobody reads half of it")
	}
	return !c.ended && !(c.trusting && len(c.faults.List) > 0)
}

// changed reports whether somebody has written to a file meanwhile. Nil: it cannot be told.
func changed(before, after fs.FileInfo) bool {
	return before != nil && after != nil && (before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()))
}

// read reads rules in a format. The error is that of r.
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

// rule takes a rule of a line. The error tells the reader to stop.
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

// hand hands a rule on.
func (c *collector) hand(r catalog.Rule) error {
	if len(c.faults.List) > 0 {
		if c.trusting { // what else is wrong is found by looking at all of it
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

// wrong notes what a check found.
func (c *collector) wrong(line int, err error) {
	problem, hint := err.Error(), ""
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		if problem, hint = e.Problem, e.Hint; e.Field != "" {
			problem = e.Field + ": " + problem
		}
	}
	c.fail(line, problem, hint)
}

// fail notes a fault in a line, 0: in none.
func (c *collector) fail(line int, problem, hint string) {
	c.note(&rule.Error{Line: line, Problem: problem, Hint: hint})
}

// note notes a fault of the file.
func (c *collector) note(fault *rule.Error) {
	if len(c.faults.List) >= MaxFaults {
		c.more++
		return
	}
	fault.File = c.name
	c.faults.List = append(c.faults.List, fault)
}

// enough reports whether there are so many faults that nobody reads on.
func (c *collector) enough() bool { return len(c.faults.List)+c.more > maxCounted }

// count says how many faults there are beside those that are listed.
func (c *collector) count() {
	if c.more > 0 {
		problem := fmt.Sprintf("and %d more faults", c.more)
		if c.enough() {
			problem = fmt.Sprintf("and more than %d more faults", c.more-1)
		}
		c.faults.List = append(c.faults.List, &rule.Error{File: c.name, Problem: problem, Hint: "mend those above and look again"})
	}
}

func (c *collector) yieldError(err error) {
	if !c.ended {
		c.yield(catalog.Rule{}, err)
	}
}
