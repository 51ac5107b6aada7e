package book

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"stint/rule/catalog"
)

// Book is a catalog with the source of its rules. There are three kinds:
//
//   - A book of files ([New], [Book.Load]). To change its rules, change the files and
//     load them again.
//   - A book with a store on disk ([Open]). Its rules are changed by [Book.Put],
//     [Book.Delete] and [Book.Import]. When the call returns, the change is in force and
//     on disk; a change that cannot be written is undone.
//   - A book of shared rules ([NewShared]). It is changed in the same way, and other processes
//     may change the rules too.
//
// A Book is safe for concurrent use. Changes are made one after another; reads and decisions never
// wait for them.
type Book struct {
	catalog *catalog.Catalog
	disk    *Disk  // nil unless the rules are in a store on disk
	shared  Shared // nil unless the rules are shared

	mu     sync.Mutex // held during a whole change
	looked string     // result of looks for the files last read

	loadsMu sync.Mutex // guards the fields below; held only briefly
	loads   Loads
}

// New returns a book of files without rules.
func New(o catalog.Options) *Book { return &Book{catalog: catalog.New(o)} }

// Open opens a store on disk and puts its rules in force. The error is a [*book.DiskError].
func Open(path string, o catalog.Options) (*Book, error) {
	store, err := OpenDisk(path)
	if err != nil {
		return nil, err
	}
	b := &Book{catalog: catalog.New(o), disk: store}
	if err := b.catalog.Replace(store.Rules()); err != nil {
		_ = store.Close() // nothing was written
		return nil, b.unusable(err)
	}
	return b, nil
}

// unusable returns the error for rules on disk that this version refuses.
func (b *Book) unusable(err error) error {
	if _, ok := errors.AsType[*DiskError](err); ok {
		return err
	}
	return &DiskError{
		Path: b.disk.Path(), Problem: "a rule in it is refused: " + err.Error(), Err: err,
		Hint: "start the version of stint that wrote the file, or move it away and import the rules anew",
	}
}

// Catalog returns the rules in force.
func (b *Book) Catalog() *catalog.Catalog { return b.catalog }

// Changeable reports whether single rules can be changed: they do not come from files.
func (b *Book) Changeable() bool { return b.disk != nil || b.shared != nil }

// Close closes the store on disk, if there is one. The rules stay in force.
func (b *Book) Close() error {
	if b.disk == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.disk.Close()
}

// Load replaces all rules by those of files, all or nothing. If the files have faults, the error is
// a [*stint/rule.Errors] and the old rules stay.
func (b *Book) Load(files ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Changeable() {
		return errors.New("a book with a store takes its rules from there")
	}
	looked := looks(files)
	err := b.catalog.Replace(ReadFiles(files...))
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		err = Explain(wrong, files...)
	}
	b.note(looked, err)
	return err
}

// ErrReadOnly is returned for changes of single rules in a book of files.
var ErrReadOnly = errors.New("the rules come from files")

// A Precondition reports whether a change may be made, given the present rule with its ID. It
// prevents that one of two concurrent editors overwrites the other. Nil allows every change.
type Precondition func(present catalog.Rule, exists bool) bool

// PreconditionError is returned if a precondition was false. It has the present rule.
type PreconditionError struct {
	Present catalog.Rule
	Exists  bool
}

// Error returns whether there is such a rule.
func (e *PreconditionError) Error() string {
	if !e.Exists {
		return "there is no such rule"
	}
	return fmt.Sprintf("the rule %.60q is not what it was taken for", e.Present.ID)
}

// Put adds a rule or replaces the rule with its ID; created reports whether it was added. Errors
// are [*catalog.Error], [*PreconditionError], [*book.DiskError] and ErrReadOnly, and those of
// [Shared]; after an error nothing has changed. Only shared rules use ctx.
func (b *Book) Put(ctx context.Context, r catalog.Rule, must Precondition) (created bool, err error) {
	if !b.Changeable() {
		return false, ErrReadOnly
	}
	if err := r.Check(); err != nil {
		return false, err
	}
	if b.shared != nil {
		return b.putShared(ctx, r, must)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, exists := b.catalog.Get(r.ID)
	switch {
	case must != nil && !must(before, exists):
		return false, &PreconditionError{before, exists}
	}
	if err := b.catalog.Put(r); err != nil {
		return false, err
	}
	if err := b.disk.Put(r); err != nil {
		return false, errors.Join(err, b.putBack(r.ID, before, exists))
	}
	return !exists, nil
}

// putBack restores the rule as it was before a change that could not be written.
func (b *Book) putBack(id string, before catalog.Rule, exists bool) error {
	if exists {
		return b.catalog.Put(before)
	}
	b.catalog.Delete(id)
	return nil
}

// Delete removes a rule and reports whether there was one. Errors are [*PreconditionError],
// [*book.DiskError] and ErrReadOnly, and those of [Shared].
func (b *Book) Delete(ctx context.Context, id string, must Precondition) (bool, error) {
	switch {
	case !b.Changeable():
		return false, ErrReadOnly
	case b.shared != nil:
		return b.deleteShared(ctx, id, must)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, exists := b.catalog.Get(id)
	switch {
	case must != nil && !must(before, exists):
		return false, &PreconditionError{before, exists}
	case !exists:
		return false, nil
	}
	b.catalog.Delete(id)
	if err := b.disk.Delete(id); err != nil {
		return false, errors.Join(err, b.putBack(id, before, true))
	}
	return true, nil
}

// Import are the options of Book.Import.
type Import struct {
	// Replace removes all present rules. If false, only rules with an ID of the import are
	// replaced.
	Replace bool

	// Hash is the hash that the catalog must have before the import; "" allows any.
	Hash string
}

// StaleError is returned if the catalog has another hash than Import.Hash.
type StaleError struct{ Hash string }

// Error returns the hash of the rules in force.
func (e *StaleError) Error() string { return "the rules in force have the hash " + e.Hash }

// Import puts many rules in force as one change, all or nothing, and returns their number. Errors
// are those that rules yields, [*catalog.Error], [*StaleError], [*book.DiskError] and ErrReadOnly, and
// those of [Shared]; after an error nothing has changed.
func (b *Book) Import(ctx context.Context, rules iter.Seq2[catalog.Rule, error], how Import) (n int, err error) {
	if !b.Changeable() {
		return 0, ErrReadOnly
	}
	batch, err := Gather(rules)
	if err != nil {
		return 0, err
	}
	if b.shared != nil {
		if err := b.importShared(ctx, batch, how); err != nil {
			return 0, err
		}
		return batch.Len(), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if hash := b.catalog.Hash(); how.Hash != "" && how.Hash != hash {
		return 0, &StaleError{hash}
	}
	if how.Replace {
		err = b.importLocked(batch.Rules(), func() error { return b.disk.Replace(batch) })
	} else {
		err = b.importLocked(b.disk.Merged(batch), func() error { return b.disk.Merge(batch) })
	}
	return batch.Len(), err
}

// importLocked replaces the rules in force. It calls write after the catalog has accepted all
// rules, and puts them in force after write has succeeded.
func (b *Book) importLocked(rules iter.Seq2[catalog.Rule, error], write func() error) error {
	return b.catalog.Replace(func(yield func(catalog.Rule, error) bool) {
		for r, err := range rules {
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := write(); err != nil {
			yield(catalog.Rule{}, err)
		}
	})
}
