package redis

import (
	"context"
	"errors"
	"testing"

	"stint/store/redis/connect"
)

// A panic on the way of a caller's batch goes to that caller, who may live on: others do not
// wait for it, and nobody writes into a batch that may still be read.
func TestPanic(t *testing.T) {
	c := newCommitter(make([]connect.Link, 1), "")
	c.connections[0].healthy = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // who would wait does not
	for range 2 {
		b := new(batch)
		err := panics(func() error {
			p, _ := c.exchange(ctx, nil, b, byPing) // there is no client
			return p.err
		})
		if err != nil || !b.inUse || c.inFlight != 0 {
			t.Errorf("%v; the batch is gone: %v; %d are on their way", err, b.inUse, c.inFlight)
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
