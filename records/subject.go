package records

import (
	"slices"
	"time"

	"stint/records/index"
)

// SubjectKind says what a subject is.
type SubjectKind string

// The kinds of subjects.
const (
	User         SubjectKind = index.User
	Organisation SubjectKind = index.Organisation
	Key          SubjectKind = index.Key
)

// Subject is what is known of a client.
type Subject struct {
	Name       string      `json:"subject"`             // KEY=VALUE of an entry, such as user=42
	Kind       SubjectKind `json:"kind"`                // what it is
	Plan       string      `json:"plan,omitempty"`      // name of its plan; "" for the default plan
	Groups     []string    `json:"groups,omitempty"`    // in the order given
	Notes      string      `json:"notes,omitempty"`     // for operators
	Subscribed time.Time   `json:"subscribed,omitzero"` // when its subscription began; zero: unknown
	Next       index.Next  `json:"next,omitzero"`       // the plan that it gets later
	PlanUntil  time.Time   `json:"plan_until,omitzero"` // when it returns to the default plan, from the next plan if there is one; zero: never
}

// ID returns the subject's kind of record and name.
func (s Subject) ID() ID { return ID{Subjects, s.Name} }

func (s Subject) end() time.Time { return s.PlanUntil }

// PlanAt returns the name of the subject's plan at a time; "" for the default plan.
func (s *Subject) PlanAt(now time.Time) string {
	if inForce(s.PlanUntil, now) {
		return s.Next.At(s.Plan, now)
	}
	return ""
}

func (s Subject) check(c *checks) (Record, *Error) {
	id := s.ID()
	if err := id.checkSubject(s.Name); err != nil {
		return nil, err
	}
	if field, fault := index.CheckClient(string(s.Kind), s.Subscribed); fault.Problem != "" {
		return nil, id.fieldFault(field, fault)
	}
	field, fault := s.Next.Check(&s.Plan, s.PlanUntil, c.now)
	s.Subscribed = s.Subscribed.UTC().Truncate(time.Second)
	s.Groups = slices.Clone(s.Groups)
	err := firstFault(id.fieldFault("groups", index.CheckGroups(s.Groups, MaxGroups)), id.fieldFault(field, fault), id.checkName("plan", s.Plan), id.checkText("notes", s.Notes), id.checkUntil("plan_until", &s.PlanUntil, c.now))
	return s, err
}
