package records

import (
	"strings"
	"time"

	"stint"
	"stint/records/index"
)

// Override gives one subject, or all subjects that match a pattern, other numbers for a rule.
//
// If several overrides apply, an exact one wins over a pattern, then the one with the longer pattern
// wins, then the one that was changed last. A star in a pattern matches zero or more bytes of the
// value; stars do not count for its length.
type Override struct {
	Target    string        `json:"target"`             // a subject such as user=42, or a pattern such as user=test-*
	Rule      string        `json:"rule"`               // name of the rule
	Requests  uint32        `json:"requests,omitempty"` // 0: as in the rule
	Per       time.Duration `json:"per,omitempty"`      // 0: as in the rule
	Burst     uint32        `json:"burst,omitempty"`    // 0: as in the rule
	Unlimited bool          `json:"unlimited,omitempty"`
	Until     time.Time     `json:"until,omitzero"` // zero: without end
	Why       string        `json:"why,omitempty"`
}

// ID returns the override's kind and name, which is its target and its rule.
func (o Override) ID() ID { return ID{Overrides, o.Target + separator + o.Rule} }

func (o Override) end() time.Time { return o.Until }

// separator is between target and rule in the name of an override. Neither can contain it.
const separator = "\n"

// IsPattern reports whether the target is a pattern.
func (o *Override) IsPattern() bool { return strings.Contains(o.Target, "*") }

// field returns the name of the field with the target.
func (o *Override) field() string {
	if o.IsPattern() {
		return "pattern"
	}
	return "subject"
}

// InForce reports whether the override applies at a time.
func (o *Override) InForce(now time.Time) bool { return inForce(o.Until, now) }

func (o Override) check(c *checks) (Record, *Error) {
	id := o.ID()
	if err := o.checkTarget(); err != nil {
		return nil, err
	}
	if o.Rule == "" {
		return nil, id.fault("rule", "missing", "name the rule whose numbers it changes")
	}
	if err := o.checkNumbers(); err != nil {
		return nil, err
	}
	err := firstFault(id.checkName("rule", o.Rule), id.checkText("why", o.Why), id.checkUntil("until", &o.Until, c.now))
	return o, err
}

func (o *Override) checkTarget() *Error {
	if err := o.ID().checkEntry(o.field(), o.Target); err != nil || !o.IsPattern() {
		return err
	}
	return o.ID().fieldFault(o.field(), index.CheckPattern(o.Target))
}

func (o *Override) checkNumbers() *Error {
	id := o.ID()
	numbers := o.Requests != 0 || o.Per != 0 || o.Burst != 0
	switch {
	case o.Unlimited && numbers:
		return id.fault("unlimited", "there are also numbers", "leave out either")
	case !o.Unlimited && !numbers:
		return id.fault("requests", "it changes nothing", "set requests, per, burst or unlimited; to deny all requests, make a ban")
	}
	return id.fieldFault("per", index.CheckPer(o.Per, stint.MinPer, stint.MaxPer))
}
