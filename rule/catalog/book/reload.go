package book

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// settled is the minimum age of a file whose modification time is trusted: a second write soon
// after the first may leave the same time.
const settled = 2 * time.Second

// Loads is the result of the loads of a book of files.
type Loads struct {
	// Failure is why the last load was refused, at time At; nil if it succeeded.
	Failure error
	At      time.Time

	// Refused is the number of refused loads.
	Refused uint64
}

// Loads returns the result of the loads so far.
func (b *Book) Loads() Loads {
	b.loadsMu.Lock()
	defer b.loadsMu.Unlock()
	return b.loads
}

// Reload calls [Book.Load] if the files may have changed, or if always is true. news reports
// whether there is something to log: new rules, a new error, or the end of an error.
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

// note stores the result of a load. looked is how the files looked before it.
func (b *Book) note(looked string, err error) {
	if b.looked = looked; err != nil {
		b.looked = "" // always read refused files again
	}
	b.loadsMu.Lock()
	defer b.loadsMu.Unlock()
	if b.loads.Failure, b.loads.At = err, time.Now(); err != nil {
		b.loads.Refused++
	}
}

// looks returns a text that differs when files have changed, without reading them; "" if that
// cannot be determined.
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
