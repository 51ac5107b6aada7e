package connect

import (
	"context"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/script"
)

// LentOf returns what was lent of a key in Redis, and the epoch in which it was lent: 0 if nothing ever was. It
// reads the state and changes nothing.
func (s *Side) LentOf(ctx context.Context, name string) (epoch stint.Instant, lent []stint.Lent, err error) {
	client, err := s.client(ctx)
	if err != nil {
		return 0, nil, err
	}
	text, err := client.Do(ctx, client.B().Get().Key(name).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, Explain("look at what is lent", err)
	}
	epoch, lent = script.ReadLending(text)
	return epoch, lent, nil
}
