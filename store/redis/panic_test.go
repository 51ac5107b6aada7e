package redis

import (
	"context"
	"errors"
	"testing"

	"stint/store/redis/connect"
)

// A panic while a batch is sent goes to its caller, who may recover: others do not wait for it, and
// nobody writes into a batch that may still be read.
func TestPanic(t *testing.T) {
	c := newCommitter(make([]connect.Link, 1), "")
	c.connections[0].healthy = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nobody waits
	for range 2 {
		b := new(batch)
		err := panics(func() error {
			p, _ := c.exchange(ctx, nil, b, byPing) // the client is nil
			return p.err
		})
		if err != nil || !b.inUse || c.inFlight != 0 {
			t.Errorf("%v; in use: %v; %d in flight", err, b.inUse, c.inFlight)
		}
	}
}

// panics returns nil if do panics.
func panics(do func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	return errors.Join(errors.New("it does not panic"), do())
}
