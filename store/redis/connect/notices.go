package connect

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// Publish sends a message to all who listen to a channel, whose name begins with prefix.
func Publish(ctx context.Context, client rueidis.Client, prefix, channel, message string) error {
	command := client.B().Publish().Channel(prefix + channel).Message(message).Build()
	return explainNotice("publish", prefix, client.Do(ctx, command).Error())
}

// Listen calls onMessage for each message of the channels, whose names begin with prefix, in the server's
// order, until ctx is done or the connection is lost. It uses a connection of its own.
func Listen(ctx context.Context, client rueidis.Client, prefix string, channels []string, onMessage func(channel, message string)) error {
	names := make([]string, len(channels))
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
