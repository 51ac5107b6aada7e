package records

import (
	"encoding/json"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Plans is the kind of plans. Only a File with [Options.Plans] has any.
const Plans Kind = "plan"

// Plan is a plan of clients: limits, by their names. [Options.Plans] knows what they mean.
type Plan struct {
	Name   string          `json:"plan"`
	Limits json.RawMessage `json:"limits"` // a JSON object
}

func (p Plan) end() (never time.Time) { return never }

// ID returns the plan's kind and name.
func (p Plan) ID() ID { return ID{Plans, p.Name} }

func (p Plan) check(*checks) (Record, *Error) {
	if p.Name == "" || !json.Valid(p.Limits) || p.Limits[0] != '{' {
		return nil, p.ID().fault("limits", "the plan has no name, or its limits are no object", `write both, such as plan: gold, limits: {"api": {"requests": 100, "per": "1d"}}`)
	}
	return p, p.ID().checkName("plan", p.Name)
}

// PlanSet checks all plans of a file together, and returns a function that puts them in force. It is
// called when they are on disk, or never. Calls follow each other. With an error the function remembers
// plans that do not fit, and logs that: it is called if another node has made them all the same.
type PlanSet func(all []Plan) (commit func(), err error)

// preparePlans prepares the plans of the file, if any of the edits is about one; nil edits are about all.
func (f *File) preparePlans(tx *bolt.Tx, edits []Edit) (commit func(), err error) {
	about := func(e Edit) bool { return e.id().Kind == Plans }
	if f.options.Plans == nil || edits != nil && !slices.ContainsFunc(edits, about) {
		return func() {}, nil
	}
	var all []Plan
	c := tx.Bucket(bucketOf(Plans)).Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		v, err := decode[stored[Plan]](f, name, value)
		if err != nil {
			return nil, err
		}
		all = append(all, v.Record)
	}
	if commit, err = f.options.Plans(all); err != nil {
		return commit, &Error{Where: "plans", Problem: err.Error(), Hint: "correct the plan; stint check shows what its limits may be", Err: ErrUnfit}
	}
	return commit, nil
}
