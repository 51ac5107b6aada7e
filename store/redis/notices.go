package redis

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"stint/store/redis/connect"
)

// Publish sends a message to all who listen to a channel, in every database of the server and, on a
// Cluster, on every node. Channel names begin with the namespace, as keys do.
func (s *Store) Publish(ctx context.Context, channel, message string) error {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	command := client.B().Publish().Channel(s.channel(channel)).Message(message).Build()
	return s.explainNotice("publish", client.Do(ctx, command).Error())
}

// Listen calls onMessage for each message of the channels, in the server's order, until ctx is done or
// the connection is lost. It uses a connection of its own.
func (s *Store) Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	names := make([]string, len(channels))
	for i, channel := range channels {
		names[i] = s.channel(channel)
	}
	return client.Dedicated(func(own rueidis.DedicatedClient) error {
		defer own.Close()
		return s.explainNotice("listen", own.Receive(ctx, own.B().Subscribe().Channel(names...).Build(), func(m rueidis.PubSubMessage) {
			onMessage(strings.TrimPrefix(m.Channel, s.channel("")), m.Message)
		}))
	})
}

// explainNotice is connect.Explain with a hint about the rights that channels need.
func (s *Store) explainNotice(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = connect.Explain(doing, err)
	if problem, ok := errors.AsType[*Error](err); ok && strings.HasPrefix(problem.Problem, "NOPERM") {
		problem.Hint = "let the user publish and listen on the channels of the namespace: ACL SETUSER NAME &" + s.channel("*") + " +publish +subscribe +unsubscribe"
	}
	return err
}

// Divided reports whether calls of several keys may be decided in several steps, as on a Cluster:
// see Store.
func (s *Store) Divided() bool { return s.tags != nil }

// channel returns the name of a channel in Redis.
func (s *Store) channel(name string) string { return s.namespace + ":" + name }
