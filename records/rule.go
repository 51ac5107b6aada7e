package records

import (
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/trail"
)

// Rules is the kind of rules per API. Only a File with [Options.Rules] has any.
const Rules Kind = "rule"

// Rule is a rule per API. [Options.Rules] knows what its text means.
type Rule struct {
	Name string
	Text json.RawMessage // a JSON object
}

// MarshalJSON returns the text.
func (r Rule) MarshalJSON() ([]byte, error) { return r.Text.MarshalJSON() }

// UnmarshalJSON sets the text.
func (r *Rule) UnmarshalJSON(text []byte) error { return r.Text.UnmarshalJSON(text) }

// ID returns the rule's kind and name.
func (r Rule) ID() ID { return ID{Rules, r.Name} }

func (r Rule) end() time.Time { return time.Time{} }

func (r Rule) check(c *checks) (Record, *Error) {
	if r.Name == "" || !json.Valid(r.Text) {
		return nil, r.ID().fault("id", "the rule has no id, or its text is no JSON", "give it both")
	}
	if c.rules != nil {
		return c.rules.Check(r)
	}
	return r, nil
}

// RuleSet keeps the rules per API in force. Calls follow each other.
type RuleSet interface {
	// Check checks a rule by itself, and returns it as it is to be stored.
	Check(r Rule) (Record, *Error)

	// Prepare checks edits of rules that are made together, and returns a function that puts them in
	// force. It is called when they are on disk, or never.
	Prepare(edits []Edit) (commit func(), err error)

	// PrepareAll is Prepare for all rules there are.
	PrepareAll(rules iter.Seq2[Rule, error]) (commit func(), err error)
}

// ErrUnfit is a cause of an [Error] about rules that do not fit together.
var ErrUnfit = errors.New("rules that do not fit together")

// rulesFault is the error about rules that do not fit together.
func rulesFault(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &Error{Where: "rules per API", Problem: err.Error(), Hint: "correct the rule", Err: errors.Join(ErrUnfit, err)}
}

// HasRules reports whether the rules per API are among the records.
func (f *File) HasRules() bool { return f.options.Rules != nil }

// CheckRules checks whether rules would fit together if they were all there are. It changes nothing. The error
// may be that of rules.
func (f *File) CheckRules(rules iter.Seq2[Rule, error]) error {
	if _, err := f.options.Rules.PrepareAll(rules); err != nil {
		return rulesFault(err)
	}
	return nil
}

// prepareRules prepares those of some edits that are about rules.
func (f *File) prepareRules(edits []Edit) (commit func(), err error) {
	rules := slices.DeleteFunc(slices.Clone(edits), func(e Edit) bool { return e.id().Kind != Rules })
	switch {
	case len(rules) == 0:
		return func() {}, nil
	case f.options.Rules == nil:
		return nil, &Error{Where: rules[0].id().String(), Problem: "this service keeps no rules per API here", Hint: "leave out --catalog and --catalog-db, or change the rules there"}
	}
	if commit, err = f.options.Rules.Prepare(rules); err != nil {
		return nil, rulesFault(err)
	}
	return commit, nil
}

// prepareAllRules prepares all rules of the file.
func (f *File) prepareAllRules(tx *bolt.Tx) (commit func(), err error) {
	if f.options.Rules == nil {
		return func() {}, nil
	}
	commit, err = f.options.Rules.PrepareAll(func(yield func(Rule, error) bool) {
		c := tx.Bucket(bucketOf(Rules)).Cursor()
		for name, value := c.First(); name != nil; name, value = c.Next() {
			v, err := decode[stored[Rule]](f, name, value)
			v.Record.Name = string(name)
			if !yield(v.Record, err) || err != nil {
				return
			}
		}
	})
	if err != nil {
		return nil, rulesFault(err)
	}
	return commit, nil
}

// lastEdits returns the last edit of each rule among edits of several changes.
func lastEdits(edits []Edit) []Edit {
	seen := map[string]bool{}
	var last []Edit
	for _, e := range slices.Backward(edits) {
		if id := e.id(); id.Kind == Rules && !seen[id.Name] {
			seen[id.Name] = true
			last = append(last, e)
		}
	}
	return last
}

// Imported is the object of the audit trail's entry for an import of rules, which has one entry for all
// of them.
const Imported = "(import)"

// writeImport writes the entry for an import of rules.
func writeImport(audit *trail.Writer, c *Change) error {
	put, deleted := 0, 0
	for i := range c.Edits {
		switch {
		case c.Edits[i].id().Kind != Rules:
		case c.Edits[i].Put != nil:
			put++
		default:
			deleted++
		}
	}
	return audit.WriteImport(string(Rules), Imported, put, deleted, c.Why)
}
