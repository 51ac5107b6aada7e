package book

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"stint/rule/catalog"
)

// Book is a catalog and where its rules come from. There are two kinds:
//
//   - One of files ([New], [Book.Load]). Whoever wants other rules changes the files and
//     loads them again.
//   - One with a store on disk ([Open]). Its rules are changed by [Book.Put],
//     [Book.Delete] and [Book.Import]. A change is in force and on the disk when the call
//     that made it returns; one that cannot be written is taken back.
//
// It is safe for concurrent use. Changes are made one after the other; nobody who reads
// or decides waits for them.
type Book struct {
	catalog *catalog.Catalog
	disk    *Disk // nil: the rules come from files

	mu     sync.Mutex // held for the whole of a change
	looked string     // what the files looked like when they were last read

	loadsMu sync.Mutex // guards what follows; never held for long
	loads   Loads
}

// New returns a book of files that holds no rule so far.
func New(o catalog.Options) *Book { return &Book{catalog: catalog.New(o)} }

// Open returns the book of a store on disk, with all its rules in force. The error is a
// [*book.DiskError].
func Open(path string, o catalog.Options) (*Book, error) {
	store, err := OpenDisk(path)
	if err != nil {
		return nil, err
	}
	b := &Book{catalog: catalog.New(o), disk: store}
	if err := b.catalog.Replace(store.Rules()); err != nil {
		_ = store.Close() // it was only read
		return nil, b.unusable(err)
	}
	return b, nil
}

// unusable says that the rules on disk cannot be put in force.
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

// OnDisk reports whether the rules are kept in a store on disk, and so can be changed one
// by one.
func (b *Book) OnDisk() bool { return b.disk != nil }

// Close lets go of the store on disk, if there is one. The rules stay in force.
func (b *Book) Close() error {
	if b.disk == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.disk.Close()
}

// Load puts the rules of files in force, all or nothing. The error of the files is a
// [*stint/rule.Errors]; then the rules before stay.
func (b *Book) Load(files ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.disk != nil {
		return errors.New("a book with a store on disk takes its rules from there")
	}
	looked := looks(files)
	err := b.catalog.Replace(ReadFiles(files...))
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		err = Explain(wrong, files...)
	}
	b.note(looked, err)
	return err
}

// ErrReadOnly is returned for changes of a book of files.
var ErrReadOnly = errors.New("the rules come from files")

// A Precondition is what must be true of the rule of an id for a change to be made, so
// that of two who change the same neither overwrites the other unseen. Nil: nothing.
type Precondition func(present catalog.Rule, exists bool) bool

// PreconditionError says that a precondition was false, and what is there instead.
type PreconditionError struct {
	Present catalog.Rule
	Exists  bool
}

// Error says what was found.
func (e *PreconditionError) Error() string {
	if !e.Exists {
		return "there is no such rule"
	}
	return fmt.Sprintf("the rule %.60q is not what it was taken for", e.Present.ID)
}

// Put writes a rule, in the place of one with its id; created says that there was none.
// Errors are [*catalog.Error], [*PreconditionError], [*book.DiskError] and ErrReadOnly; then
// nothing has changed.
func (b *Book) Put(r catalog.Rule, must Precondition) (created bool, err error) {
	if b.disk == nil {
		return false, ErrReadOnly
	}
	if err := r.Check(); err != nil {
		return false, err
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

// putBack puts in force what was before a change that could not be written.
func (b *Book) putBack(id string, before catalog.Rule, exists bool) error {
	if exists {
		return b.catalog.Put(before)
	}
	b.catalog.Delete(id)
	return nil
}

// Delete removes a rule. It returns false where there is none. Errors are
// [*PreconditionError], [*book.DiskError] and ErrReadOnly.
func (b *Book) Delete(id string, must Precondition) (bool, error) {
	if b.disk == nil {
		return false, ErrReadOnly
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

// An Import says what becomes of the rules that are there before one.
type Import struct {
	// Replace removes them. False: those with an id of the import are replaced, the
	// others stay.
	Replace bool

	// Hash is that of the catalog that the import is made for; "": of any.
	Hash string
}

// StaleError says that an import was made for other rules than those in force.
type StaleError struct{ Hash string }

// Error says which rules are in force.
func (e *StaleError) Error() string { return "the rules in force have the hash " + e.Hash }

// Import puts many rules in force as one change, all or nothing, and returns how many
// they are. Errors are those that rules yields, [*catalog.Error], [*StaleError],
// [*book.DiskError] and ErrReadOnly; then nothing has changed.
func (b *Book) Import(rules iter.Seq2[catalog.Rule, error], how Import) (n int, err error) {
	if b.disk == nil {
		return 0, ErrReadOnly
	}
	batch, err := Gather(rules)
	if err != nil {
		return 0, err
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

// importLocked writes rules and puts them in force. They are written once the catalog has
// taken them all, and in force once they are written.
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
