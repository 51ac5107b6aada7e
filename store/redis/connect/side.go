package connect

import (
	"context"

	"github.com/redis/rueidis"
)

// Side is all that a store does beside deciding: it reads histories and settings, delivers events and
// notices, keeps the secret and accepts losses. It has a connection of its own, so that it delays no
// decision. It is safe for concurrent use. Use NewSide to make one.
type Side struct {
	link      Link
	namespace string
	prefixes  []string // of the keys of each partition
}

// NewSide returns the side of a store on a server, with a namespace. prefixes are how the keys of each
// partition begin.
func NewSide(target rueidis.ClientOption, namespace string, prefixes []string) *Side {
	return &Side{link: Link{Target: target}, namespace: namespace, prefixes: prefixes}
}

// ClientOf returns the client of a side's connection, or why there is none.
func ClientOf(ctx context.Context, s *Side) (rueidis.Client, error) { return s.client(ctx) }

func (s *Side) client(ctx context.Context) (rueidis.Client, error) {
	client, err := s.link.Client(ctx)
	if err != nil {
		return nil, Explain("connect", err)
	}
	return client, nil
}

// Close closes the connection.
func (s *Side) Close() { s.link.Close() }

// name returns a name in Redis that belongs to the namespace.
func (s *Side) name(of string) string { return s.namespace + ":" + of }
