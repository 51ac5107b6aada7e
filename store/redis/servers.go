package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/redis/connect"
)

// Server is one of the servers that hold the keys of a Store: a primary of a Cluster, or the
// only one.
type Server struct {
	// Number is what [Store.Server] calls it; -1 stands for all of a Cluster.
	Number int

	// Name is HOST:PORT in a Cluster, "" of the only server.
	Name string

	// Place is a Handling.Place whose keys lie there; "" where any does.
	Place stint.Key

	// Err is why it did not answer, or cannot decide; nil: it did.
	Err error

	// Lost says that it has forgotten counts since somebody last looked: it was emptied, or
	// another server that lacks the last writes took its place.
	Lost bool
}

// Server returns the number of the server that holds the key of a take, counted from 0; -1 for
// a take without a limit. A server that does not answer any more concerns those of its number
// only, see [stint/guard.Options].Server.
func (s *Store) Server(t *stint.Take) int {
	if t.Limit == nil || t.Limit.Algorithm() == stint.Unlimited {
		return -1
	}
	if s.tags == nil {
		return 0
	}
	if s.cluster.Due(time.Now()) {
		s.behind.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), layoutTimeout)
			defer cancel()
			_ = s.readLayout(ctx) // the old one stands
		})
	}
	return s.cluster.Server(s.partition(t))
}

// ServerName returns HOST:PORT of a server of a Cluster by its number; "" where it has none.
func (s *Store) ServerName(number int) string {
	if s.tags == nil {
		return ""
	}
	return s.cluster.Name(number)
}

// layoutTimeout is how long the nodes of a Cluster may take to say which of them holds what.
const layoutTimeout = time.Second

// readLayout asks the nodes of a Cluster which of them holds what.
func (s *Store) readLayout(ctx context.Context) error {
	client, err := s.side.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	if err := s.cluster.Read(ctx, client.Nodes()); err != nil {
		return connect.Explain("ask for the slots", err)
	}
	return nil
}

// Look asks each server whether it is there and still has its epoch, all at once, and with
// decide whether it can decide, as Probe does. Of a Cluster it asks the primaries: replicas decide nothing. Where nobody says
// which they are, one stands for all.
func (s *Store) Look(ctx context.Context, decide bool) []Server {
	servers := []Server{{}}
	if s.tags != nil {
		if err := s.readLayout(ctx); err != nil {
			return []Server{{Number: -1, Err: err}}
		}
		servers = s.primaries()
	}
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() {
			one := &servers[i]
			if decide {
				one.Err = s.probe(ctx, one.Place)
			}
			if one.Err == nil {
				one.Lost, one.Err = s.watch(ctx, s.partition(&stint.Take{Handling: &stint.Handling{Place: one.Place}}))
			}
		})
	}
	all.Wait()
	return servers
}

// primaries returns all servers of a Cluster, each with a place of its own.
func (s *Store) primaries() []Server {
	var servers []Server
	s.cluster.Each(func(number int, name, tag string) {
		servers = append(servers, Server{Number: number, Name: name, Place: stint.Key(tag)})
	})
	return servers
}

// failed joins what is wrong with servers, each by its name.
func failed(servers []Server) error {
	var all []error
	for _, one := range servers {
		if one.Err != nil && one.Name != "" {
			one.Err = fmt.Errorf("%s: %w", one.Name, one.Err)
		}
		all = append(all, one.Err)
	}
	return errors.Join(all...)
}

// whole says of an error that nothing is charged on other servers than those that it blames.
func whole(err error) error {
	if said := transaction.FailedServers(err); said != nil {
		said.Whole = true
	}
	return err
}

// notWhole takes that back.
func notWhole(err error) error {
	if said := transaction.FailedServers(err); said != nil {
		said.Whole = false
	}
	return err
}

// blame returns an error of the servers of some partitions of a Cluster as one that says which
// they are.
func (s *Store) blame(err error, partitions ...int) error {
	said := &transaction.ServerError{Err: err}
	for _, p := range partitions {
		if n := s.cluster.Server(p); !slices.Contains(said.Servers, n) {
			said.Servers = append(said.Servers, n)
		}
	}
	return said
}
