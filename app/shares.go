package app

import (
	"context"
	"time"

	"stint"
	"stint/rule"
)

// agreeTimeout is how long servers may take to hear what was used of parts that are no more.
const agreeTimeout = time.Second

// agree tells all who stand before a server which rules come into force. Until done is
// called takes of divided limits wait, so that none is decided by both.
func (a *App) agree(table *rule.Table) (done func()) {
	terms := make([]*stint.Terms, 0, len(table.Rules()))
	for _, r := range table.Rules() {
		terms = append(terms, r.Terms)
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	ends := make([]func(), 0, len(a.stores.servers))
	for _, s := range a.stores.servers {
		s.own.Flush(ctx) // what is strict from now on counts all that was let pass
		end, err := s.shares.Change(ctx, terms)
		ends = append(ends, end)
		if err != nil {
			a.log.Warn("a limit that is divided in another way now may let its share pass once more", "store", s.name, "problem", err)
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
