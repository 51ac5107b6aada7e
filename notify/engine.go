package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint/internal/logging"
	"stint/internal/system"
)

const (
	// atOnce is how many deliveries of a receiver a node tries at the same time.
	atOnce = 4

	// lookEvery is the time between two looks into the outbox.
	lookEvery = time.Second

	// claimEvery is the longest time between two claims. So long a delivery may wait that another node retried by
	// hand, or left behind in a crash when its lease ended.
	claimEvery = 5 * time.Second

	// page is the most events that are read from an outbox at a time.
	page = 100

	// defaultLease is the default of Options.Lease: longer than a try takes.
	defaultLease = 30 * time.Second

	// defaultKeep is the default of Options.Keep.
	defaultKeep = 100_000

	// grace is how long tries in flight may take when the service ends.
	grace = 3 * time.Second

	// saveTime is how long it may take to store the result of a try, also when the service ends.
	saveTime = 2 * time.Second
)

// Options are the settings of an [Engine].
type Options struct {
	Receivers []Receiver // checked, with different names
	Queue     Queue
	Outbox    Outbox // nil: no events, except those of Test

	Log *slog.Logger // nil: none
	Out io.Writer    // standard output; nil: that of the process

	// Lease is how long a delivery belongs to the node that claimed it. After a crash of the node another one
	// tries it when the lease ends. It must be longer than a try; 0: 30 s.
	Lease time.Duration

	// Keep is how many deliveries of a receiver may wait; events beyond it are dropped. So many failed ones are kept
	// too, and delivered ones. More need more room on the disk or in Redis, about 1 KB each; 0: 100,000.
	Keep int

	// Resolver looks up names of receivers; nil for that of the machine.
	Resolver *net.Resolver
}

// Engine takes events from an outbox, stores a delivery for each receiver that wants them, and tries deliveries until
// they succeed or are given up. Each receiver has its own loop, so a slow one delays no other. It is safe for
// concurrent use.
type Engine struct {
	options   Options
	log       *slog.Logger
	receivers []*endpoint
}

// endpoint is a receiver with what is known of it.
type endpoint struct {
	Receiver
	sender sender
	wake   chan struct{} // a delivery may be due

	delivered, failed, givenUp, dropped atomic.Uint64
	status                              atomic.Pointer[ReceiverStatus] // at the last claim
	added                               atomic.Int64                   // deliveries stored since then
	failing                             atomic.Bool                    // the last try failed
	unsaved                             unsaved

	// Lines about failed tries, events that were given up, results that were not stored, and events that were dropped.
	logged, lost, full, crowded logging.PerMinute
}

// New returns an engine. It reads the secrets and opens the files of lines. The error is an [*Error].
func New(o Options) (*Engine, error) {
	e := &Engine{options: o, log: o.Log}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	e.options.Lease = cmp.Or(o.Lease, defaultLease)
	e.options.Keep = cmp.Or(o.Keep, defaultKeep)
	for i := range o.Receivers {
		r := &endpoint{Receiver: o.Receivers[i], wake: make(chan struct{}, 1)}
		var err error
		if r.sender, err = newSender(&r.Receiver, o.Resolver, o.Out); err != nil {
			if wrong, ok := errors.AsType[*Error](err); ok {
				wrong.Where = "receiver " + r.Name + ": " + wrong.Where
			}
			return nil, err
		}
		r.status.Store(new(ReceiverStatus))
		e.receivers = append(e.receivers, r)
	}
	return e, nil
}

// Run works until ctx is done. Tries in flight then have a few seconds to end; one that is cut does not count.
func (e *Engine) Run(ctx context.Context) {
	var all sync.WaitGroup
	if e.options.Outbox != nil {
		all.Go(func() { e.collect(ctx) })
	}
	for _, r := range e.receivers {
		all.Go(func() { e.serve(ctx, r) })
	}
	all.Wait()
}

// collect stores deliveries of the events in the outbox.
func (e *Engine) collect(ctx context.Context) {
	var logged logging.PerMinute
	for ctx.Err() == nil {
		n, err := e.collectPage(ctx)
		if err != nil && ctx.Err() == nil && logged.Allow() {
			e.log.Error("events not stored for delivery: they stay in the outbox, and are tried again", "error", err)
		}
		if n < page || err != nil {
			system.Wait(ctx, lookEvery)
		}
	}
}

// collectPage stores the deliveries of one page, and returns the number of events. An event leaves the outbox only
// when its deliveries are stored; after a crash in between it comes again, and its deliveries are known.
func (e *Engine) collectPage(ctx context.Context) (int, error) {
	events, err := e.options.Outbox.Pending(ctx, page)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].ID
	}
	var list []Delivery
	var told []func() // what is counted when the page is stored
	for _, r := range e.receivers {
		mine, dropped := e.wanted(r, events)
		list = append(list, mine...)
		told = append(told, func() {
			r.added.Add(int64(len(mine)))
			e.drop(r, dropped, "events dropped: too many wait for this receiver")
		})
	}
	if len(list) > 0 {
		if err := e.options.Queue.Add(ctx, list); err != nil {
			return 0, err
		}
	}
	for _, tell := range told {
		tell()
	}
	e.wakeAll()
	return len(events), e.options.Outbox.Done(ctx, ids)
}

// wanted returns deliveries of the events that a receiver wants, as many as may wait, and how many are too many.
func (e *Engine) wanted(r *endpoint, events []Event) (list []Delivery, dropped int) {
	room := e.options.Keep - r.status.Load().Waiting - int(r.added.Load())
	for i := range events {
		switch {
		case !r.Wants(&events[i]):
		case len(list) >= room:
			dropped++
		default:
			list = append(list, Delivery{Receiver: r.Name, Event: events[i], State: Waiting})
		}
	}
	return list, dropped
}

// drop counts events that were dropped, and logs what happened.
func (e *Engine) drop(r *endpoint, n int, what string) {
	if n == 0 {
		return
	}
	total := r.dropped.Add(uint64(n))
	if r.crowded.Allow() {
		e.log.Error(what, "receiver", r.Name, "dropped", total, "most", e.options.Keep, "hint", "let the receiver work again, or take it out of the config file")
	}
}

func (e *Engine) wakeAll() {
	for _, r := range e.receivers {
		r.wakeUp()
	}
}

func (r *endpoint) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// serve tries the deliveries of a receiver.
func (e *Engine) serve(ctx context.Context, r *endpoint) {
	var logged logging.PerMinute
	for ctx.Err() == nil {
		e.saveAgain(ctx, r)
		wait, disabled := r.unsaved.state(time.Now())
		if wait > 0 {
			r.sleep(ctx, wait)
			continue
		}
		added := r.added.Load()
		claimed, err := e.options.Queue.Claim(ctx, Claim{r.Name, atOnce, e.options.Lease, e.options.Keep})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if logged.Allow() {
				e.log.Error("deliveries cannot be read: they are tried later", "receiver", r.Name, "error", err)
			}
			claimed.Wait = claimEvery
		default:
			r.status.Store(&claimed.Status)
			r.added.Add(-added)
			e.drop(r, claimed.Dropped, "events that were given up long ago are dropped: too many are kept")
		}
		disabled = disabled || !claimed.Status.Disabled.IsZero()
		var tries sync.WaitGroup
		for i := range claimed.Deliveries {
			d := &claimed.Deliveries[i]
			if !r.unsaved.known(d, time.Now()) {
				tries.Go(func() { e.try(ctx, r, d, disabled) })
			}
		}
		tries.Wait()
		if len(claimed.Deliveries) == 0 {
			r.sleep(ctx, claimed.Wait)
		}
	}
}

// sleep waits until a delivery may be due.
func (r *endpoint) sleep(ctx context.Context, wait time.Duration) {
	if wait < 0 || wait > claimEvery {
		wait = claimEvery
	}
	timer := time.NewTimer(max(wait, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
	}
}

// try tries a delivery, and stores the result.
func (e *Engine) try(ctx context.Context, r *endpoint, d *Delivery, disabled bool) {
	var then Then
	if disabled {
		d.State, d.Tried, d.Status, d.Problem = Failed, time.Now(), 0, "not sent: the receiver is disabled since it answered 410"
		r.givenUp.Add(1)
	} else {
		answer, cut := r.send(ctx, &d.Event)
		if cut {
			d.State, then = Waiting, Then{} // the next node tries it at once
		} else {
			then = e.conclude(r, d, answer)
		}
	}
	tried := result{*d, then, time.Now()}
	if !e.save(ctx, r, &tried) {
		r.unsaved.add(tried)
	}
}

// save stores the result of a try, and returns whether it is stored.
func (e *Engine) save(ctx context.Context, r *endpoint, tried *result) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	id := tried.delivery.Event.ID
	err := e.options.Queue.Save(ctx, &tried.delivery, tried.left(time.Now()))
	if err == nil {
		r.unsaved.forget(id)
		return true
	}
	if r.full.Allow() {
		e.log.Error("result of a delivery not stored: it is kept in memory, and stored later; if the service ends before, the event is sent again",
			"receiver", r.Name, "event", id, "error", err)
	}
	return false
}

// saveAgain stores the results that could not be stored, until one still cannot.
func (e *Engine) saveAgain(ctx context.Context, r *endpoint) {
	list := r.unsaved.list()
	for i := range list {
		if ctx.Err() != nil || !e.save(ctx, r, &list[i]) {
			return
		}
	}
}

// send sends an event. It returns true if the end of the service cut the try.
func (r *endpoint) send(ctx context.Context, event *Event) (answer Answer, cut bool) {
	try, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	answer = r.sender.send(try, event)
	return answer, try.Err() != nil && answer.Problem != "" && answer.Status == 0
}

// conclude changes a delivery after an answer, and returns what follows.
func (e *Engine) conclude(r *endpoint, d *Delivery, answer Answer) Then {
	d.Result = Result{Tries: d.Tries + 1, Tried: time.Now(), Status: answer.Status, Problem: answer.Problem}
	about := []any{"receiver", r.Name, "event", d.Event.ID, "try", d.Tries, "status", d.Status}
	if answer.Problem == "" {
		d.State = Delivered
		r.delivered.Add(1)
		if r.failing.Swap(false) {
			e.log.Info("receiver accepts events again", about...)
		}
		return Then{}
	}
	r.failed.Add(1)
	r.failing.Store(true)
	delay, again := nextDelay(d.Tries, rand.Float64())
	switch {
	case answer.Gone:
		d.State = Failed
		r.givenUp.Add(1)
		e.log.Warn("receiver disabled: it answered 410, so it gets no event until somebody retries one", append(about, "hint", "stint webhooks retry "+r.Name)...)
		return Then{Disable: true}
	case !again || answer.Useless:
		d.State = Failed
		r.givenUp.Add(1)
		if r.lost.Allow() {
			e.log.Error("event not delivered: given up", append(about, "error", d.Problem, "hint", "when the receiver works again: stint webhooks retry "+r.Name)...)
		}
		return Then{}
	}
	then := Then{After: max(delay, answer.Pause), Pause: answer.Pause}
	if r.logged.Allow() {
		e.log.Warn("event not delivered: it is tried again", append(about, "error", d.Problem, "after", then.After.Round(time.Second).String())...)
	}
	return then
}

// TestType is the type of events that Test sends.
const TestType = "webhook.test"

// ErrUnknown is the error about a name that no receiver has.
var ErrUnknown = errors.New("no receiver has this name")

// Test sends an event of its own to a receiver once, and returns the answer. Nothing is stored.
func (e *Engine) Test(ctx context.Context, receiver string) (id string, _ Answer, _ error) {
	r := e.find(receiver)
	if r == nil {
		return "", Answer{}, ErrUnknown
	}
	now := time.Now().UTC()
	event := Event{
		ID: fmt.Sprintf("test_%016x", rand.Uint64()), Type: TestType, Rule: "test/test", Subject: "test=test", Threshold: 100, Used: 1, Of: 1,
		PeriodStart: now, PeriodEnd: now, At: now,
	}
	return event.ID, r.sender.send(ctx, &event), nil
}

// Retry makes failed deliveries wait again; see [Queue]. The error is ErrUnknown for a name that no receiver has.
func (e *Engine) Retry(ctx context.Context, receiver, id string) (int, error) {
	r := e.find(receiver)
	if r == nil {
		return 0, ErrUnknown
	}
	n, err := e.options.Queue.Retry(ctx, receiver, id)
	if err == nil {
		r.unsaved.forget(id)
	}
	r.wakeUp()
	return n, err
}

// List returns deliveries; see [Queue].
func (e *Engine) List(ctx context.Context, q Query) (List, error) {
	return e.options.Queue.List(ctx, q)
}

// Receivers returns the receivers in the order of the config file.
func (e *Engine) Receivers() []Receiver {
	list := make([]Receiver, len(e.receivers))
	for i, r := range e.receivers {
		list[i] = r.Receiver
	}
	return list
}

// find returns the receiver with a name, nil if there is none.
func (e *Engine) find(name string) *endpoint {
	i := slices.IndexFunc(e.receivers, func(r *endpoint) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return e.receivers[i]
}

// Stats are the numbers of a receiver: those of this process, and the deliveries that wait on all nodes.
type Stats struct {
	Delivered, Failed, GivenUp uint64 // tries that succeeded, tries that did not, deliveries that were given up
	Dropped                    uint64 // events that were dropped, as there were too many
	Waiting                    int
	Disabled                   bool
}

// Stats returns the numbers of the receivers by their names, as they were at the last claim.
func (e *Engine) Stats() map[string]Stats {
	all := map[string]Stats{}
	for _, r := range e.receivers {
		s := r.status.Load()
		all[r.Name] = Stats{r.delivered.Load(), r.failed.Load(), r.givenUp.Load(), r.dropped.Load(), s.Waiting, !s.Disabled.IsZero()}
	}
	return all
}
