package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// claim is a claim that is renewed until it is stopped. Its context ends when the claim is lost.
type claim struct {
	ctx    context.Context //nolint:containedctx // it ends with the claim
	cancel context.CancelFunc

	worker *Worker
	id     string
	mu     sync.Mutex
	sends  bool      // whether the record is being sent
	until  time.Time // end of the claim, by this clock, less a margin
	expiry *time.Timer
	done   chan struct{}
}

// untilOf returns until when a claim may be used that was asked for at a time: it ends early, so that a try
// is over when another gateway may claim the record.
func (w *Worker) untilOf(asked time.Time) time.Time {
	return asked.Add(w.options.Lease - w.options.Lease/30)
}

// hold renews the claim of a record in the background, which was asked for at a time.
func (w *Worker) hold(e *Entry, asked time.Time) *claim {
	c := &claim{worker: w, id: e.ID, until: w.untilOf(asked), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(w.sends)
	c.expiry = time.AfterFunc(time.Until(c.until), c.cancel)
	go c.renewAll()
	return c
}

// stop ends the renewal, and waits for its end.
func (c *claim) stop() {
	c.cancel()
	<-c.done
}

// renewAll renews the claim every third of its time. It ends the context when the claim is lost; the
// timer does so when it could not be renewed before its end.
func (c *claim) renewAll() {
	defer close(c.done)
	defer c.cancel()
	defer c.expiry.Stop()
	ticker := time.NewTicker(c.worker.options.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		err := c.renewLocked()
		c.mu.Unlock()
		if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
			return
		}
	}
}

func (c *claim) renewLocked() error {
	began := time.Now()
	err := c.worker.options.Storage.Renew(c.ctx, c.id, c.worker.name, c.worker.options.Lease, c.sends)
	if err == nil && c.expiry.Stop() {
		c.until = c.worker.untilOf(began)
		c.expiry.Reset(time.Until(c.until))
	}
	return err
}

// beginSend stores that the record is being sent.
func (c *claim) beginSend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.sends = true
	return c.renewLocked()
}

// reasonOf says why a try failed, without personal data.
func reasonOf(status int, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("the upstream answered %d %s", status, http.StatusText(status))
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "no answer of the upstream"
}
