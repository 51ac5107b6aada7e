package records

import (
	"net/netip"
	"strings"
	"time"

	"stint/internal/text"
	"stint/records/index"
)

// Kind is a kind of records.
type Kind string

// The kinds of records.
const (
	Subjects  Kind = "subject"
	Overrides Kind = "override"
	Bans      Kind = "ban"
	APIKeys   Kind = "key"
)

// ID identifies a record. Names are unique among the records of a kind.
type ID struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

// String returns the ID for messages, such as `ban 10.0.0.0/8`.
func (id ID) String() string {
	between := map[Kind]string{Overrides: " of ", Grants: " "}[id.Kind]
	if target, last, both := strings.Cut(id.Name, separator); both && between != "" {
		return string(id.Kind) + " " + text.Shorten(target) + between + text.Shorten(last)
	}
	return string(id.Kind) + " " + text.Shorten(id.Name)
}

// Record is a [Subject], an [Override], a [Ban], an [APIKey], a [Rule], a [Plan] or a [Grant].
type Record interface {
	// ID returns the kind and the name of the record. A record replaces the one with its ID.
	ID() ID

	// check returns the first fault of the record. It writes the record as it is to be stored, for
	// example times in whole seconds.
	check(c *checks) (Record, *Error)

	// end returns when the record ends; the zero time if it does not.
	end() time.Time
}

// checks holds what a check of a record needs beside the record.
type checks struct {
	now     time.Time
	trusted []netip.Prefix // trusted proxies
	force   bool           // accept bans of many clients
	rules   RuleSet        // checks rules per API; nil if they were checked
}

// Check returns a record as the file would store it, or its first fault. It does not compare the
// record with others.
func (f *File) Check(r Record, force bool, now time.Time) (Record, error) {
	r, fault := r.check(&checks{now: now, trusted: f.options.TrustedProxies, force: force, rules: f.options.Rules})
	if fault != nil {
		return nil, fault
	}
	return r, nil
}

// The longest texts of a record, in bytes.
const (
	MaxSubject = index.MaxSubject // a subject or a pattern
	MaxName    = index.MaxName    // the name of a rule, a plan or a group
	MaxText    = index.MaxText    // notes, and the reason of a change
	MaxGroups  = 64               // groups of a subject
)

// fault returns an Error about a field of a record.
func (id ID) fault(field, problem, hint string) *Error {
	return &Error{Where: id.String() + ": " + field, Problem: problem, Hint: hint}
}

// checkSubject checks a text KEY=VALUE.
func (id ID) checkSubject(subject string) *Error {
	return id.fieldFault("subject", index.CheckSubject(subject))
}

// checkEntry checks a subject or a pattern, except for its stars.
func (id ID) checkEntry(field, subject string) *Error {
	return id.fieldFault(field, index.CheckEntry(subject))
}

// checkName checks the name of a rule, a plan or a group.
func (id ID) checkName(field, name string) *Error { return id.fieldFault(field, index.CheckName(name)) }

// checkText checks notes or a reason, which may have several lines.
func (id ID) checkText(field, words string) *Error {
	return id.fieldFault(field, index.CheckText(words))
}

// checkUntil checks the end of a record and rounds it up to a second, so that a record is in force for
// the whole length of time that was asked for. The zero time means that the record has no end.
func (id ID) checkUntil(field string, until *time.Time, now time.Time) *Error {
	return id.fieldFault(field, index.CheckUntil(until, now))
}

// fieldFault returns the Error for the fault of a field, nil for none.
func (id ID) fieldFault(field string, f index.Fault) *Error {
	if f.Problem == "" {
		return nil
	}
	return id.fault(field, f.Problem, f.Hint)
}

// firstFault returns the first of several results of checks that is a fault.
func firstFault(faults ...*Error) *Error {
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

// inForce reports whether a record with this end is in force.
func inForce(until, now time.Time) bool { return until.IsZero() || now.Before(until) }
