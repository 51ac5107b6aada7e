package book

import (
	"context"
	"errors"

	"stint/rule/catalog"
)

// Shared keeps rules where several processes may change them. It is safe for concurrent use.
type Shared interface {
	// Get returns a rule and its revision, which is 0 if there is no such rule.
	Get(id string) (r catalog.Rule, revision uint64, err error)

	// Revision returns the revision of the last change.
	Revision() (uint64, error)

	// Change makes a change, all or none of its edits. When it returns nil, the rules of the book are
	// changed too, by [catalog.Catalog.Prepare]. The error wraps [ErrMoved] if a revision is another,
	// and a [*catalog.Error] if the rules would not fit together.
	Change(ctx context.Context, c Change) error
}

// Change is a change of shared rules.
type Change struct {
	Edits    []Edit // in the order of their IDs, with different IDs
	Revision uint64 // the revision of the last change before this one; 0: any
	Import   bool   // many rules are imported
}

// Edit puts or deletes a shared rule.
type Edit struct {
	catalog.Edit
	Revision uint64 // the revision that the rule must have; 0: any
	Absent   bool   // there must be no such rule
}

// ErrMoved means that somebody else was faster: a revision is another than a change expects.
var ErrMoved = errors.New("the rules have changed meanwhile")

// tries is how often a change of shared rules is tried while others change them.
const tries = 20

// NewShared returns a book without rules, for rules that are kept in shared. Whoever keeps them
// replaces and changes the rules of Catalog. shared is called for changes of the book only.
func NewShared(shared Shared, o catalog.Options) *Book {
	return &Book{catalog: catalog.New(o), shared: shared}
}

// putShared is Put for shared rules.
func (b *Book) putShared(ctx context.Context, r catalog.Rule, must Precondition) (created bool, err error) {
	err = b.editShared(ctx, r.ID, must, func(e *Edit, exists bool) bool {
		created, e.Rule = !exists, r
		return true
	})
	return created && err == nil, err
}

// deleteShared is Delete for shared rules.
func (b *Book) deleteShared(ctx context.Context, id string, must Precondition) (there bool, err error) {
	err = b.editShared(ctx, id, must, func(e *Edit, exists bool) bool {
		there, e.Delete = exists, true
		return exists
	})
	return there && err == nil, err
}

// editShared changes one rule. edit completes the edit, and reports whether there is anything to do. It
// is called again if somebody else was faster.
func (b *Book) editShared(ctx context.Context, id string, must Precondition, edit func(e *Edit, exists bool) bool) error {
	return retry(func() error {
		present, revision, err := b.shared.Get(id)
		exists := revision != 0
		if exists {
			present = b.catalog.WithDefaults(present)
		}
		switch {
		case err != nil:
			return err
		case must != nil && !must(present, exists):
			return &PreconditionError{present, exists}
		}
		e := Edit{Edit: catalog.Edit{Rule: catalog.Rule{ID: id}}, Revision: revision, Absent: !exists}
		if !edit(&e, exists) {
			return nil
		}
		return b.shared.Change(ctx, Change{Edits: []Edit{e}})
	})
}

// importShared is Import for shared rules.
func (b *Book) importShared(ctx context.Context, batch *Gathered, how Import) error {
	return retry(func() error {
		c := Change{Import: true}
		if how.Hash != "" || how.Replace {
			var err error
			if c.Revision, err = b.shared.Revision(); err != nil {
				return err
			}
		}
		if hash := b.catalog.Hash(); how.Hash != "" && how.Hash != hash {
			return &StaleError{hash}
		}
		for r, err := range batch.Rules() {
			if err != nil {
				return err
			}
			c.Edits = append(c.Edits, Edit{Edit: catalog.Edit{Rule: r}})
		}
		if how.Replace {
			c.Edits = append(c.Edits, b.others(batch)...)
		}
		if len(c.Edits) == 0 {
			return nil
		}
		return b.shared.Change(ctx, c)
	})
}

// others returns edits that delete all rules in force but those of a batch.
func (b *Book) others(batch *Gathered) (edits []Edit) {
	const page = 1000
	n, after := 0, ""
	for {
		rules := b.catalog.List(after, page)
		for i := range rules {
			after = rules[i].ID
			for n < batch.Len() && string(batch.id(n)) < after {
				n++
			}
			if n == batch.Len() || string(batch.id(n)) != after {
				edits = append(edits, Edit{Edit: catalog.Edit{Rule: catalog.Rule{ID: after}, Delete: true}})
			}
		}
		if len(rules) < page {
			return edits
		}
	}
}

// retry calls change until somebody else is no longer faster.
func retry(change func() error) error {
	var err error
	for range tries {
		if err = change(); !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return err
}
