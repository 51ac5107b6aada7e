package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"stint/gateway/queue/seal"
	"stint/internal/logging"
)

// storageHint is the hint of log lines about a storage that fails.
const storageHint = "see that the disk has room and the file can be written, or that Redis answers; it is tried again"

// Admission is the answer of a Gate.
type Admission struct {
	// Refused says why the record must not be sent; "" if it may.
	Refused string

	// Wait is after which time to ask again; 0 if the record may be sent now.
	Wait time.Duration

	// Delay is how long to hold the record before it is sent. What it takes is taken already.
	Delay time.Duration

	// Settle, if not nil, is called once with the status of the answer, 0 for none.
	Settle func(status int)
}

// Gate decides whether a record may be sent now.
type Gate interface {
	// Ask asks bans, lists and the validity of the client's key, and takes from the limits. An error means
	// that this could not be decided.
	Ask(ctx context.Context, r *Record) (Admission, error)
}

// WorkerOptions configure a Worker.
type WorkerOptions struct {
	// Storage has the records. The caller closes it after Stop.
	Storage Storage

	// Keys decrypt requests and encrypt answers. Nil: they are in clear.
	Keys *seal.Keys

	// Gate decides whether a record may be sent.
	Gate Gate

	// Deliver sends it.
	Deliver Deliver

	// Signer makes the identity header. Nil: there is none.
	Signer *Signer

	// Sends is how many records are sent at a time. 0: none are claimed; the Worker only forgets old
	// records.
	Sends int

	// Publish is called every Poll, for storages whose records other programs send: it makes records
	// available whose time has come, and stores the results that were reported. Nil: not called.
	Publish func(ctx context.Context) error

	// Rules returns the rules in force, to compare. When the Worker starts and when they have changed, records that
	// wait for a limit are asked for again. Nil: they wait until the time that was found before.
	Rules func() any

	// Lease is how long a claim lasts. It is renewed every third of it. 0 means 30 s.
	Lease time.Duration

	// Poll is how often to look for records that other gateways stored. 0 means 250 ms.
	Poll time.Duration

	// SendTimeout is how long one try may take. 0 means 5 min.
	SendTimeout time.Duration

	// Counts counts what happened. Nil: nothing is counted.
	Counts *Counts

	// Log gets faults, and records that are dead. Nil: they are dropped.
	Log *slog.Logger
}

// Worker sends records. Start starts it.
type Worker struct {
	options WorkerOptions
	name    string
	wake    chan struct{} // has an element if a record may be due
	slots   chan struct{} // has an element for each record being sent
	rules   any           // of the last check
	handled sync.Map      // IDs of the records that handle has

	stopClaims, stopSends context.CancelFunc
	sends                 context.Context //nolint:containedctx // ends the sends of Stop, which have no other caller
	running               sync.WaitGroup
}

// The defaults of WorkerOptions.
const (
	DefaultLease       = 30 * time.Second
	defaultPoll        = 250 * time.Millisecond
	defaultSendTimeout = 5 * time.Minute
)

// NewWorker returns a worker that does not run yet.
func NewWorker(o WorkerOptions) *Worker {
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Poll == 0 {
		o.Poll = defaultPoll
	}
	if o.SendTimeout == 0 {
		o.SendTimeout = defaultSendTimeout
	}
	if o.Counts == nil {
		o.Counts = new(Counts)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Worker{options: o, name: NewID(), wake: make(chan struct{}, 1), slots: make(chan struct{}, max(o.Sends, 1))}
}

// Wake makes the worker look for records now.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Start starts sending records and forgetting old ones. It is called once.
func (w *Worker) Start() {
	var claims context.Context
	claims, w.stopClaims = context.WithCancel(context.Background())
	w.sends, w.stopSends = context.WithCancel(context.Background())
	w.running.Go(func() { w.sweepAll(claims) })
	if w.options.Sends > 0 {
		w.running.Go(func() { w.claimAll(claims) })
	}
	if w.options.Publish != nil {
		w.running.Go(func() { w.publishAll(claims) })
	}
}

// Stop claims no further records, and waits until those that are being sent have an answer. When ctx is
// done, it stops sending them, and hands their claims back, so that they are sent again.
func (w *Worker) Stop(ctx context.Context) {
	w.stopClaims()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	w.stopSends()
	<-ended
}

// claimAll claims records until ctx is done.
func (w *Worker) claimAll(ctx context.Context) {
	log := logging.RetryLog{Log: w.options.Log, Event: "cannot claim records of the queue: they wait", Again: "records of the queue are claimed again", Hint: storageHint}
	for ctx.Err() == nil {
		w.checkRules(ctx)
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		e, next, err := w.options.Storage.Claim(ctx, w.name, w.options.Lease)
		if e != nil {
			if _, has := w.handled.LoadOrStore(e.ID, true); has { // the clock leapt over the end of the claim
				<-w.slots
				continue
			}
			w.running.Go(func() {
				defer func() {
					w.handled.Delete(e.ID)
					<-w.slots
					w.Wake()
				}()
				w.handle(e, asked)
			})
			continue
		}
		<-w.slots
		if ctx.Err() == nil {
			log.Report(err, false)
		}
		if err != nil {
			next = firstPause
		} else if next < 0 || next > w.options.Poll {
			next = w.options.Poll
		}
		w.idle(ctx, next)
	}
}

// idle waits until a record may be due.
func (w *Worker) idle(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.wake:
	case <-ctx.Done():
	}
}

// unreadablePause is how long a record waits that cannot be decrypted.
const unreadablePause = 5 * time.Minute

// handle sends a record that was claimed at a time, or hands its claim back.
func (w *Worker) handle(e *Entry, asked time.Time) {
	o := &w.options
	record, err := w.open(e)
	if err != nil {
		o.Counts.Unreadable.Add(1)
		o.Log.Error("a record of the queue cannot be read: it stays, and its line waits", "id", e.ID, "rule", e.Rule, "error", err)
		w.release(e, unreadablePause, "cannot be read: "+err.Error())
		return
	}
	if e.Tries >= record.Tries {
		w.end(e, Dead, nil, e.Reason)
		return
	}
	claim := w.hold(e, asked)
	defer claim.stop()
	admission, err := o.Gate.Ask(claim.ctx, record)
	switch {
	case w.sends.Err() != nil: // Stop ended it
		w.settle(&admission, 0)
		w.release(e, 0, e.Reason)
	case err != nil:
		o.Log.Error("a record of the queue waits: its limits could not be asked", "id", e.ID, "rule", e.Rule, "error", err)
		w.release(e, firstPause, "the limits could not be asked")
	case admission.Refused != "":
		w.end(e, Failed, nil, admission.Refused)
	case admission.Wait > 0:
		w.release(e, admission.Wait, e.Reason)
	default:
		w.admitted(e, record, &admission, claim)
	}
}

func (w *Worker) open(e *Entry) (*Record, error) {
	data, err := w.options.Keys.Open(e.ID, dataField, e.Data)
	if err != nil {
		return nil, err
	}
	record, err := DecodeRecord(data)
	if err == nil && record.ID != e.ID {
		err = errFormat
	}
	return record, err
}

// admitted sends a record that its limits allow.
func (w *Worker) admitted(e *Entry, record *Record, admission *Admission, claim *claim) {
	w.wait(claim.ctx, admission.Delay)
	if err := claim.beginSend(); err != nil {
		pause := time.Duration(0)
		if w.sends.Err() == nil { // Stop has not ended it
			pause = firstPause
			w.options.Log.Error("a record of the queue is not sent: its claim cannot be renewed", "id", e.ID, "error", err)
		}
		w.settle(admission, 0)
		w.release(e, pause, e.Reason)
		return
	}
	answer, err := w.send(claim.ctx, record)
	status := 0
	if answer != nil {
		status = answer.Status
	}
	w.settle(admission, status)
	tries := e.Tries + 1
	switch {
	case err == nil && !again(status):
		w.end(e, Done, answer, "")
	case err != nil && w.sends.Err() != nil: // Stop ended the try
		w.release(e, 0, e.Reason)
	case tries >= record.Tries:
		e.Tries = tries
		w.end(e, Dead, answer, reasonOf(status, err))
	default:
		e.Tries = tries
		w.options.Counts.Retried.Add(1)
		w.release(e, pauseAfter(tries), reasonOf(status, err))
	}
}

// send sends a record once.
func (w *Worker) send(ctx context.Context, record *Record) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.SendTimeout)
	defer cancel()
	request, err := record.Request(ctx, w.options.Signer, time.Now())
	if err != nil {
		return nil, err
	}
	response, err := w.options.Deliver(ctx, record, request)
	if err != nil {
		return nil, err
	}
	return readAnswer(response)
}

func (w *Worker) settle(a *Admission, status int) {
	if a.Settle != nil {
		a.Settle(status)
	}
}

func (w *Worker) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// release hands a claim back; the record waits for d.
func (w *Worker) release(e *Entry, d time.Duration, reason string) {
	w.store(e, func(e *Entry) {
		e.State, e.At, e.Claimer, e.Sending, e.Reason = Waiting, time.Now().Add(d), "", false, reason
	})
}

// end finishes a record.
func (w *Worker) end(e *Entry, s State, answer *Answer, reason string) {
	var sealed []byte
	if answer != nil {
		data, err := answer.Encode()
		if err != nil {
			w.options.Log.Error("an answer cannot be stored", "id", e.ID, "error", err)
		}
		sealed = w.options.Keys.Seal(e.ID, answerField, data)
	}
	stored := w.store(e, func(e *Entry) {
		finish(e, s, time.Now())
		e.Reason, e.Answer = reason, sealed
	})
	if !stored {
		return
	}
	switch s {
	case Done:
		w.options.Counts.Delivered.Add(1)
	case Failed:
		w.options.Counts.Failed.Add(1)
		w.options.Log.Warn("a record of the queue was refused", "id", e.ID, "rule", e.Rule, "reason", reason)
	case Dead:
		w.options.Counts.Dead.Add(1)
		w.options.Log.Error("a record of the queue was tried too often: it stays until somebody retries or drops it", "id", e.ID, "rule", e.Rule, "tries", e.Tries, "reason", reason)
	}
}

const (
	// storeTimeout is how long storing an outcome may take, and storeTries how often it is tried, with
	// pauses up to storePause: as long as a claim lasts at least.
	storeTimeout = 5 * time.Second
	storeTries   = 20
	storePause   = 5 * time.Second
)

// errStored means that an earlier try to store an outcome did it, though its answer was lost.
var errStored = errors.New("stored by an earlier try")

// store changes a record that this worker has claimed. It tries for a while: an outcome that is not stored
// means that the record is sent again.
func (w *Worker) store(e *Entry, change func(*Entry)) bool {
	pause := 50 * time.Millisecond
	var err error
	for try := range storeTries {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		err = w.options.Storage.Change(ctx, e.ID, func(now *Entry) error {
			if now.State != Claimed || now.Claimer != w.name {
				if want := *now; try > 0 && now.Tries == e.Tries {
					if change(&want); now.State == want.State {
						return errStored
					}
				}
				return ErrLost
			}
			now.Tries = e.Tries
			change(now)
			return nil
		})
		cancel()
		if errors.Is(err, errStored) {
			err = nil
		}
		if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) || w.sends.Err() != nil {
			break
		}
		w.wait(w.sends, pause)
		pause = min(2*pause, storePause)
	}
	if err != nil {
		w.options.Counts.Lost.Add(1)
		w.options.Log.Error("the outcome of a record could not be stored: it may be sent again", "id", e.ID, "error", err)
	}
	return err == nil
}
