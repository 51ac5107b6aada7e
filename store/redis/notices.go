package redis

import (
	"context"

	"stint/store/redis/connect"
)

// Publish sends a message to all who listen to a channel, in every database of the server and, on a
// Cluster, on every node. Channel names begin with the namespace, as keys do.
func (s *Store) Publish(ctx context.Context, channel, message string) error {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	return connect.Publish(ctx, client, s.channel(""), channel, message)
}

// Listen calls onMessage for each message of the channels, in the server's order, until ctx is done or
// the connection is lost. It uses a connection of its own.
func (s *Store) Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	return connect.Listen(ctx, client, s.channel(""), channels, onMessage)
}

// Divided reports whether calls of several keys may be decided in several steps, as on a Cluster:
// see Store.
func (s *Store) Divided() bool { return s.tags != nil }

// channel returns the name of a channel in Redis.
func (s *Store) channel(name string) string { return s.namespace + ":" + name }
