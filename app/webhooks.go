package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"stint/internal/system"
	"stint/notify"
	"stint/rule"
	"stint/store/redis/connect"
	"stint/store/redis/recordlog"
	"stint/telemetry"
)

// webhooks delivers events to the receivers of the config file. A nil one delivers nothing.
type webhooks struct {
	*notify.Engine
	queue io.Closer
}

// openWebhooks opens the queue of deliveries, if there are receivers. It does not connect to Redis. The engine takes the
// events of the stores.
func (a *App) openWebhooks() error {
	c := &a.config
	if len(c.Webhooks) == 0 {
		return nil
	}
	queue, closer, err := a.openDeliveries()
	if err != nil {
		return err
	}
	engine, err := notify.New(notify.Options{Receivers: c.Webhooks, Queue: queue, Outbox: a.stores.Outbox(), Log: a.log})
	if wrong, ok := errors.AsType[*notify.Error](err); ok {
		return errors.Join(c.WebhooksError(wrong), closer.Close())
	}
	if err != nil {
		return errors.Join(err, closer.Close())
	}
	a.webhooks = &webhooks{engine, closer}
	a.metrics.Webhooks(a.webhooks.stats)
	return nil
}

// openDeliveries opens the queue: in Redis if nodes share their counts there, else in a file.
func (a *App) openDeliveries() (notify.Queue, io.Closer, error) {
	c := &a.config
	if c.WebhooksOnRedis() {
		servers, err := connect.Servers(c.Store)
		if err != nil {
			return nil, nil, err
		}
		queue, err := recordlog.OpenDeliveries(servers[0].URL, c.Namespace)
		if err != nil {
			return nil, nil, err
		}
		return queue, closing(queue.Close), nil
	}
	queue, err := notify.OpenFile(c.WebhooksFile(a.stateFile()))
	if wrong, ok := errors.AsType[*notify.Error](err); ok {
		return nil, nil, c.WebhooksError(wrong)
	}
	return queue, queue, err
}

// closing is an io.Closer without an error.
type closing func()

// Close implements io.Closer.
func (c closing) Close() error {
	c()
	return nil
}

// runWebhooks delivers until ctx is done.
func (a *App) runWebhooks(ctx context.Context) {
	if a.webhooks == nil {
		var seen map[string]time.Time
		a.group.Go(func() { system.Every(ctx, dropEvery, func() { seen = a.dropEvents(ctx, time.Now(), seen) }) })
		return
	}
	for _, r := range a.webhooks.Receivers() {
		if strings.HasPrefix(r.URL, "http://") {
			a.log.Warn("events to this receiver are signed but not encrypted", "receiver", r.Name, "to", r.Place(), "hint", "give it an https URL")
		}
	}
	a.group.Go(func() { a.webhooks.Run(ctx) })
}

// dropEvery is the time between two times that events without receivers are dropped, and dropMost the most events
// each time. Another node on the same store may have receivers, as while a changed config file is rolled out: it has
// dropAfter to store its deliveries, which takes it seconds. If there are dropMost, the older half is dropped at once.
const (
	dropEvery = 10 * time.Second
	dropMost  = 20_000
	dropAfter = time.Minute
)

// dropEvents removes the events that no receiver gets, so that the outbox does not fill up and reach no thresholds any
// more. It asks no store if no rule announces any. seen has the events that were there before, and since when: the
// store may have another clock. dropEvents returns those that are there now.
func (a *App) dropEvents(ctx context.Context, now time.Time, seen map[string]time.Time) map[string]time.Time {
	if !slices.ContainsFunc(a.limiter.Table().Metered(), func(r *rule.Rule) bool { return len(r.Usage.Notify) > 0 }) {
		return nil
	}
	outbox := a.stores.Outbox()
	events, err := outbox.Pending(ctx, dropMost)
	if err == nil {
		var ids []string
		if ids, seen = overdue(events, now, seen); len(ids) > 0 {
			err = outbox.Done(ctx, ids)
		}
		if err == nil && len(ids) > 0 {
			a.log.Warn("events dropped: rules have notify, and there is no receiver", "events", len(ids), "hint", "write webhooks into the config file, or leave notify out")
		}
	}
	if err != nil && ctx.Err() == nil {
		a.log.Error("events of thresholds not read", "error", err)
	}
	return seen
}

// overdue returns which of the waiting events, the oldest first, are to be dropped, and since when each was seen.
func overdue(events []notify.Event, now time.Time, seen map[string]time.Time) (ids []string, since map[string]time.Time) {
	since = make(map[string]time.Time, len(events))
	for i := range events {
		id := events[i].ID
		first, ok := seen[id]
		if !ok {
			first = now
		}
		since[id] = first
		if len(events) == dropMost && i < dropMost/2 || now.Sub(first) >= dropAfter {
			ids = append(ids, id)
		}
	}
	return ids, since
}

// closeWebhooks closes the queue.
func (a *App) closeWebhooks() {
	if a.webhooks == nil {
		return
	}
	if err := a.webhooks.queue.Close(); err != nil {
		a.log.Error("deliveries of webhooks not closed", "error", err)
	}
}

// stats returns the numbers of the receivers for metrics.
func (w *webhooks) stats() map[string]telemetry.WebhookStats {
	all := map[string]telemetry.WebhookStats{}
	for name, s := range w.Stats() {
		all[name] = telemetry.WebhookStats(s)
	}
	return all
}
