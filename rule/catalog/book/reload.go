package book

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// settled is how old a file must be before its time tells that it has not changed: a
// second write may leave the time of the first.
const settled = 2 * time.Second

// Loads says what became of the loads of a book of files.
type Loads struct {
	// Failure is why the last one was refused, at the time At; nil: it succeeded.
	Failure error
	At      time.Time

	// Refused counts those that were.
	Refused uint64
}

// Loads returns what became of the loads so far.
func (b *Book) Loads() Loads {
	b.loadsMu.Lock()
	defer b.loadsMu.Unlock()
	return b.loads
}

// Reload is [Book.Load] where the files may be as they were: then it does nothing, unless
// it is told always to. It returns whether there is anything to say of it: other rules,
// an error that is not that of the time before, or that this is over.
func (b *Book) Reload(always bool, files ...string) (news bool, err error) {
	b.mu.Lock()
	now := looks(files)
	same := now != "" && now == b.looked
	b.mu.Unlock()
	if same && !always {
		return false, nil
	}
	hash, before := b.catalog.Hash(), b.Loads().Failure
	err = b.Load(files...)
	if err != nil {
		return always || before == nil || before.Error() != err.Error(), err
	}
	return always || before != nil || b.catalog.Hash() != hash, nil
}

// note keeps what became of a load of files that looked so before it.
func (b *Book) note(looked string, err error) {
	if b.looked = looked; err != nil {
		b.looked = "" // what is refused is read again whatever it looks like
	}
	b.loadsMu.Lock()
	defer b.loadsMu.Unlock()
	if b.loads.Failure, b.loads.At = err, time.Now(); err != nil {
		b.loads.Refused++
	}
}

// looks is what tells that files have changed without reading them; "" where that
// cannot be told.
func looks(files []string) string {
	var b strings.Builder
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || time.Since(info.ModTime()) < settled {
			return ""
		}
		fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
