// Package servers distributes keys over several independent stores, such as Redis servers without a
// Cluster.
package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/internal/transaction"
)

// Server is one of the stores that have the keys.
type Server struct {
	// Name decides which keys the server has (see Pick), such as HOST:PORT. All nodes must use the
	// same name: with another name a server has other keys.
	Name string

	// Store stores the keys.
	Store stint.Store
}

// Store is a stint.Store that stores each key on one of several servers, by Handling.Place or, if
// that is empty, by the key. It is safe for concurrent use. It does not close the stores of its
// servers.
//
// If all limited keys of a call lie on one server, Store passes the call on unchanged, at the cost
// of a hash for each place. So keys that are often used together should have the same place: in
// rules, `shard_by`.
//
// # Keys on several servers
//
// Such a call is all or none too. It takes two steps, each one round trip to all servers concerned
// at once. The first peeks at each key, which shows whether the cost fits. If all fit, the second
// charges, each server all or none. If a server denies then because of other calls, a third step
// gives back what the other servers charged. If something does not fit, the second step takes only
// that, to learn the retry time, and nothing else changes. So no more ever passes than limits
// allow, and denials change nothing; but between two servers of a call others may see
//
//   - some of its keys charged and others not yet;
//   - for the length of a round trip, units charged that are then given back, so that a
//     request may be denied that would have passed a moment later. A place in a
//     leaky_bucket behind which others queued meanwhile stays taken.
//
// The first step also peeks at sources (see stint.Take.Borrows), and the second charges them if
// they are needed. Debts of sources follow in another step once all has passed, as does all that is
// forced, given back, settled or reset; a call of only such takes needs no other step. Until then
// others see more use of the source than there is. Independent takes, with their sources, are
// decided apart from the others, at the same time if they lie on one server each.
//
// The decisions of one call carry the times of their servers.
//
// # When a server fails
//
// The error has the server's name and wraps the server's error. Store gives back what other servers
// charged, within a second, even if the caller stops waiting. The error wraps stint.ErrUnknown if
// that fails, or if something was forced, given back, settled or reset already.
//
// If each Server.Store is a guard.Store, a server that is away affects only its own keys: their
// takes are Degraded by their policies, and count like other decisions. If a policy denies a take
// the call is denied; if it allows the take the others decide. A take whose own server is away does
// not borrow; a source whose server is away lends nothing.
//
// # When the servers change
//
// Keys that move to another server start unused there: each may admit up to its limit once more.
// While some nodes have the old list of servers and some the new one, both servers count a key that
// moves.
type Store struct {
	servers    []Server // sorted by name
	seeds      []uint64 // seed of each server's weights
	background transaction.Background
}

var _ stint.Store = (*Store)(nil)

// ConfigError is an error about the servers.
type ConfigError struct {
	Problem string // what is wrong
	Hint    string // what to do
}

// Error returns the problem, without the hint.
func (e *ConfigError) Error() string { return "servers: " + e.Problem }

// New returns a store on the servers, whose order does not matter. The error is a [*ConfigError].
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

// Close waits for refunds that go on in the background. It does not close the servers' stores.
func (s *Store) Close() { s.background.Close() }

// Decide decides the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	server, several := s.place(len(call.Takes), func(i int) *stint.Take { return &call.Takes[i] })
	if !several && server != nowhere {
		return s.withName(server, s.servers[server].Store.Decide(ctx, call))
	}
	if transaction.Depends(call) {
		return transaction.Apart(ctx, call, s.Decide)
	}
	call.SizeResults()
	return s.scatter(ctx, call)
}

// place returns the server of those of n takes that have limits, nowhere if none has one. several
// reports whether there is more than one server.
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

// withName adds the server's name to its error, unless the error is about the call.
func (s *Store) withName(server int, err error) error {
	if err == nil || errors.Is(err, stint.ErrWrongCall) {
		return err
	}
	return fmt.Errorf("servers: server %s: %w", s.servers[server].Name, err)
}

// failures are the errors of several servers.
type failures []error

// Error returns all errors in one line.
func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all errors.
func (f failures) Unwrap() []error { return f }

// joinErrors returns several errors as one, nil if all are nil.
func joinErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return failures(errs)
}
