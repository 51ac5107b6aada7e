// Package servers places keys on several independent stores, such as Redis servers that
// know nothing of each other.
package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"stint"
)

// Server is one of the stores that keys are placed on.
type Server struct {
	// Name says which keys are its own (see Pick), such as HOST:PORT. All nodes must
	// use the same: by another name a server holds other keys.
	Name string

	// Store keeps them.
	Store stint.Store
}

// Store is a stint.Store that places each key on one of several servers, by Handling.Place
// or, where that is empty, by the key. It is safe for concurrent use. What it is given
// for the servers it does not close.
//
// A call whose limited keys lie on one server is put to that as it is, at no other cost
// than a hash of each place. So keys that are often asked together had better have the
// same place: rules say `shard_by`.
//
// # Keys on several servers
//
// The call is all or none all the same. It takes two steps, each one round trip to all
// servers concerned at once. The first looks: a peek at each key, which says whether
// what is asked fits. If all of it does, the second charges, each server all or none. If
// one denies then, because others were quicker, what the other servers charged is given
// back in a third. If something does not fit, the second step asks for that alone, to be
// told when it will; nothing else is touched. So no more ever passes than limits allow,
// and denials change nothing; but between two servers of a call others may see
//
//   - some of its keys charged and others not yet;
//   - for the length of a round trip, units charged that are then given back, so that
//     somebody may be denied who would have passed had they asked later. A place in a
//     leaky_bucket that others queued behind meanwhile stays taken.
//
// What takes lean on (see stint.Take.Borrows) is looked at in the first step too, and
// charged with all else if it is needed. What they owe it follows in a step of its own
// once all has passed, as does all that is forced, given back, settled or reset: a call
// of nothing else needs no other step. Until then others see the pool too full. Takes
// that are Independent, with what they lean on, go their own ways, at the same time where they
// lie on one server each.
//
// The decisions of one call carry the times of their servers.
//
// # When a server fails
//
// An error names the server and wraps what that said. What others had charged is given
// back, within a second, also where the caller waits no longer; where that cannot be
// done, or something was forced, given back, settled or reset already, the error wraps
// stint.ErrUnknown.
//
// So that a server that is away concerns nobody but its own keys, each has a guard of
// its own inside: its takes then come back Degraded by their policies, and count like
// other decisions. One that is denied so denies the call, one that passes leaves it to
// the others. A take whose own server is away leans on nothing; a pool that is away
// holds nothing.
//
// # When the servers change
//
// Keys that move begin anew on their new server: each may use up to what its limit holds
// once more. While some nodes know the old servers and some the new ones, a key that
// moves is counted on both.
type Store struct {
	servers []Server // by name
	seeds   []uint64 // of their weights
	behind  sync.WaitGroup
}

var _ stint.Store = (*Store)(nil)

// ConfigError says what is wrong with the servers.
type ConfigError struct {
	Problem string // what is wrong
	Hint    string // what to do
}

// Error returns the problem. The hint stands apart.
func (e *ConfigError) Error() string { return "servers: " + e.Problem }

// New returns a store on the servers, whose order does not matter. The error is a
// [*ConfigError].
func New(servers []Server) (*Store, error) {
	s := &Store{servers: slices.Clone(servers)}
	slices.SortFunc(s.servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	if len(servers) == 0 {
		return nil, &ConfigError{"no server", "name at least one"}
	}
	for i, server := range s.servers {
		switch {
		case server.Name == "" || server.Store == nil:
			return nil, &ConfigError{"a server without a name or a store", "give each both"}
		case i > 0 && server.Name == s.servers[i-1].Name:
			return nil, &ConfigError{fmt.Sprintf("server %q is named twice", server.Name), "name each once"}
		}
		s.seeds = append(s.seeds, seed(server.Name))
	}
	return s, nil
}

// Close waits until what is given back behind the backs of callers has been. The
// servers are still to be closed.
func (s *Store) Close() { s.behind.Wait() }

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	server, several := s.place(len(call.Takes), func(i int) *stint.Take { return &call.Takes[i] })
	if !several && server != nowhere {
		return s.said(server, s.servers[server].Store.Decide(ctx, call))
	}
	call.SizeResults()
	return s.scatter(ctx, call)
}

// place returns the server on which those of n takes lie that have limits, nowhere if there are
// none, and whether there are several.
func (s *Store) place(n int, take func(i int) *stint.Take) (server int, several bool) {
	server = nowhere
	for i := range n {
		switch at := s.server(take(i)); {
		case at == nowhere || at == server:
		case server == nowhere:
			server = at
		default:
			return server, true
		}
	}
	return server, false
}

// unlimited answers a take without a limit.
func unlimited(t *stint.Take, at stint.Instant) stint.Decision {
	if at == 0 {
		at = stint.At(time.Now())
	}
	return t.Limit.Test(nil, at, 0)
}

// said is what a server said, with its name. What is wrong with the call is no
// server's matter.
func (s *Store) said(server int, err error) error {
	if err == nil || errors.Is(err, stint.ErrWrongCall) {
		return err
	}
	return fmt.Errorf("servers: server %s: %w", s.servers[server].Name, err)
}

// failures are what several servers said.
type failures []error

// Error lists all of it in one line.
func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all of it.
func (f failures) Unwrap() []error { return f }

// together is several errors as one, nil where all are.
func together(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return failures(errs)
}
