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

// Server is one of the servers that hold the keys of a Store: a primary of a Cluster, or the only
// one.
type Server struct {
	// Number is the number that [Store.Server] returns; -1 stands for the whole Cluster.
	Number int

	// Name is HOST:PORT on a Cluster, "" for a single server.
	Name string

	// Place is a Handling.Place whose keys lie on this server; "" for a single server.
	Place stint.Key

	// Err is why the server did not answer or cannot decide; nil if it can.
	Err error

	// Lost reports that the server has lost counts since the last Look: it was emptied, or it
	// replaced another server whose last writes it does not have.
	Lost bool
}

// Server returns the number of the server that holds the key of a take, counted from 0; -1 for a
// take without a limit. A server that stops answering affects only the keys with its number, see
// [stint/guard.Options].Server.
func (s *Store) Server(t *stint.Take) int {
	if t.Limit == nil || t.Limit.Algorithm() == stint.Unlimited {
		return -1
	}
	if s.tags == nil {
		return 0
	}
	if s.cluster.Due(time.Now()) {
		s.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), layoutTimeout)
			defer cancel()
			_ = s.readLayout(ctx) // on an error the last layout stays
		})
	}
	return s.cluster.Server(s.partition(t))
}

// ServerName returns HOST:PORT of the server with a number on a Cluster; "" if it has no name.
func (s *Store) ServerName(number int) string {
	if s.tags == nil {
		return ""
	}
	return s.cluster.Name(number)
}

// layoutTimeout bounds the query for the slots of a Cluster's nodes.
const layoutTimeout = time.Second

// readLayout asks a node of the Cluster which primary holds which slots.
func (s *Store) readLayout(ctx context.Context) error {
	client, err := connect.ClientOf(ctx, s.side)
	if err != nil {
		return err
	}
	if err := s.cluster.Read(ctx, client.Nodes()); err != nil {
		return connect.Explain("ask for the slots", err)
	}
	return nil
}

// Look checks all servers at once: that each answers and still has its epoch, and with decide also
// that it can decide, as Probe does. On a Cluster it checks the primaries, since replicas decide
// nothing. If no node answers which they are, it returns one Server for the whole Cluster.
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
				one.Lost, one.Err = s.checkEpoch(ctx, s.partition(&stint.Take{Handling: &stint.Handling{Place: one.Place}}))
			}
		})
	}
	all.Wait()
	return servers
}

// primaries returns all servers of a Cluster, each with a place that lies on it.
func (s *Store) primaries() []Server {
	var servers []Server
	s.cluster.Each(func(number int, name, tag string) {
		servers = append(servers, Server{Number: number, Name: name, Place: stint.Key(tag)})
	})
	return servers
}

// failed joins the errors of servers, each with the server's name.
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

// withServers wraps an error with the servers of the partitions in which it happened.
func (s *Store) withServers(err error, partitions ...int) error {
	serverErr := &transaction.ServerError{Err: err}
	for _, p := range partitions {
		if n := s.cluster.Server(p); !slices.Contains(serverErr.Servers, n) {
			serverErr.Servers = append(serverErr.Servers, n)
		}
	}
	return serverErr
}
