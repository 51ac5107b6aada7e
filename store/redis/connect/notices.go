package connect

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// Publish sends a message to all who listen to a channel, in every database of the server and, on a
// Cluster, on every node. Channel names begin with the namespace, as keys do.
func (s *Side) Publish(ctx context.Context, channel, message string) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	command := client.B().Publish().Channel(s.name(channel)).Message(message).Build()
	return explainNotice("publish", s.name(""), client.Do(ctx, command).Error())
}

// Listen calls onMessage for each message of the channels, in the server's order, until ctx is done or
// the connection is lost. It uses a connection of its own.
func (s *Side) Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	prefix, names := s.name(""), make([]string, len(channels))
	for i, channel := range channels {
		names[i] = prefix + channel
	}
	return client.Dedicated(func(own rueidis.DedicatedClient) error {
		defer own.Close()
		return explainNotice("listen", prefix, own.Receive(ctx, own.B().Subscribe().Channel(names...).Build(), func(m rueidis.PubSubMessage) {
			onMessage(strings.TrimPrefix(m.Channel, prefix), m.Message)
		}))
	})
}

// explainNotice is Explain with a hint about the rights that channels need.
func explainNotice(doing, prefix string, err error) error {
	if err == nil {
		return nil
	}
	err = Explain(doing, err)
	if problem, ok := errors.AsType[*Error](err); ok && strings.HasPrefix(problem.Problem, "NOPERM") {
		problem.Hint = "let the user publish and listen on the channels of the namespace: ACL SETUSER NAME &" + prefix + "* +publish +subscribe +unsubscribe"
	}
	return err
}
