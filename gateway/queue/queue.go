package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"stint/gateway/queue/seal"
	"stint/httplimit"
	"stint/internal/logging"
	"stint/limiter"
	"stint/limiter/line"
)

const (
	// StatusPath is the path of the status resources; the ID of a record follows.
	StatusPath = "/.stint/queue/"

	// putTimeout is how long storing a record may take, and holdsTimeout looking up a line.
	putTimeout   = 5 * time.Second
	holdsTimeout = 500 * time.Millisecond

	// pauseAfterFault is for how long lines count as empty after a look-up that failed, so that requests
	// do not all wait for a server that is away.
	pauseAfterFault = time.Second

	// longestWait is the largest Retry-After.
	longestWait = time.Hour
)

// Options configure a Queue.
type Options struct {
	// Storage keeps the records. The caller closes it.
	Storage Storage

	// Keys encrypt requests and answers. Nil: they are stored in clear.
	Keys *seal.Keys

	// Secrets returns the fields of a domain's requests that must not be stored. Nil: only those that are
	// never stored, such as Authorization and Cookie.
	Secrets func(domain string) Secrets

	// Credential returns what identifies the key with which a request proved its identity, without being a
	// secret; "" for none. Nil: there are no keys.
	Credential func(r *http.Request) string

	// Original returns path and query of a request as the client sent it. Nil: those of the request.
	Original func(r *http.Request) string

	// Stored is called when a record was stored, so that a worker in this process looks for it. Nil: not
	// called.
	Stored func()

	// Log gets faults of the storage. Nil: they are dropped.
	Log *slog.Logger
}

// Queue accepts requests. It is safe for concurrent use.
type Queue struct {
	options Options
	paused  atomic.Int64 // until when lines count as empty, as Unix time in nanoseconds

	lookUps, full, puts logging.FailureLog // each at most once a minute
}

var _ httplimit.Queue = (*Queue)(nil)

// For returns the queue for a handler with a name of a server, which its records remember as their Route and
// Server.
func (q *Queue) For(handler, server string) httplimit.Queue { return named{q, handler, server} }

// named is a queue for one handler.
type named struct {
	*Queue
	handler, server string
}

// Accept implements httplimit.Queue.
func (n named) Accept(w http.ResponseWriter, r *http.Request, e *httplimit.Excess) error {
	return n.accept(w, r, e, n.handler, n.server)
}

// New returns a queue.
func New(o Options) *Queue {
	if o.Secrets == nil {
		o.Secrets = func(string) Secrets { return Secrets{} }
	}
	if o.Credential == nil {
		o.Credential = func(*http.Request) string { return "" }
	}
	if o.Original == nil {
		o.Original = func(r *http.Request) string { return r.URL.RequestURI() }
	}
	if o.Stored == nil {
		o.Stored = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	const hint = "see the server or the disk of the queue"
	return &Queue{
		options: o,
		lookUps: logging.FailureLog{Log: o.Log, Event: "cannot look up a line of the queue: requests may overtake queued ones", Hint: hint},
		full:    logging.FailureLog{Log: o.Log, Event: "the queue takes no requests", Hint: hint},
		puts:    logging.FailureLog{Log: o.Log, Event: "cannot queue a request", Hint: hint},
	}
}

// Holds reports whether a line has unfinished records. If the storage cannot answer, it returns false:
// the limit decides alone, and the request may overtake those in the line.
func (q *Queue) Holds(id line.ID) bool {
	if time.Now().UnixNano() < q.paused.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), holdsTimeout)
	defer cancel()
	holds, err := q.options.Storage.Holds(ctx, lineOf(id))
	if err != nil {
		q.paused.Store(time.Now().Add(pauseAfterFault).UnixNano()) // from now on: the look-up may have taken long
		q.lookUps.Report(err)
	}
	return holds
}

// errDelivering is the error of Accept for a request that comes from the queue.
var errDelivering = errors.New("a request from the queue is not queued again")

// deliveringKey is the context key of requests that a worker sends.
type deliveringKey struct{}

// Delivering reports whether a worker sends this request. Such a request is never queued again.
func Delivering(ctx context.Context) bool { return Delivered(ctx) != nil }

// Delivered returns the record whose request a worker sends; nil for a request of a client.
func Delivered(ctx context.Context) *Record {
	record, _ := ctx.Value(deliveringKey{}).(*Record)
	return record
}

// Accept stores a request and answers it with 202. It implements httplimit.Queue, which calls it only for
// requests whose rule allows it.
func (q *Queue) Accept(w http.ResponseWriter, r *http.Request, e *httplimit.Excess) error {
	return q.accept(w, r, e, "", "")
}

func (q *Queue) accept(w http.ResponseWriter, r *http.Request, e *httplimit.Excess, handler, server string) error {
	s := e.Settings
	switch {
	case Delivering(r.Context()):
		return errDelivering
	case r.ContentLength > s.Body:
		return httplimit.ErrTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, s.Body+1))
	if _, large := errors.AsType[*http.MaxBytesError](err); large || int64(len(body)) > s.Body {
		return httplimit.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("%w: %w", httplimit.ErrBody, err)
	}
	record := q.record(r, e, body)
	record.Route, record.Server = handler, server
	place, err := q.put(r.Context(), record, e)
	if errors.Is(err, ErrFull) {
		if err != ErrFull { //nolint:errorlint // the bare error is the bound of the rule; a wrapped one has another cause
			q.full.Report(err)
		}
		return errors.Join(httplimit.ErrQueueFull, err)
	}
	if err != nil {
		q.puts.Report(fmt.Errorf("rule %s: %w", e.Line.Rule, err))
		return err
	}
	q.options.Stored()
	writeAccepted(w, record.ID, place, e.RetryAfter)
	return nil
}

// record returns the record of a request.
func (q *Queue) record(r *http.Request, e *httplimit.Excess, body []byte) *Record {
	secrets := q.options.Secrets(e.Domain)
	original, err := ParseURI(q.options.Original(r))
	if err != nil {
		original = r.URL
	}
	record := &Record{
		ID: NewID(), Method: r.Method, URI: secrets.uri(r.URL), Scheme: "http", Host: r.Host, Header: secrets.header(r.Header),
		Original: secrets.uri(original), Domain: e.Domain, Rule: e.Line.Rule, Client: e.Client, Identity: e.Identity, Credential: q.options.Credential(r),
		Received: time.Now().UTC(), Tries: int(e.Settings.Tries), Keep: e.Settings.Keep, Body: body,
	}
	if r.TLS != nil {
		record.Scheme = "https"
	}
	for i := range e.Descriptors {
		record.Descriptors = append(record.Descriptors, copyDescriptor(&e.Descriptors[i]))
	}
	record.IdempotencyKey = record.Header.Get(idempotencyHeader)
	if record.IdempotencyKey == "" {
		record.IdempotencyKey = record.ID
	}
	record.Header.Del(idempotencyHeader)
	return record
}

// copyDescriptor copies a descriptor, whose memory is used again for another request.
func copyDescriptor(d *limiter.Descriptor) Descriptor {
	c := Descriptor{Cost: d.Cost, Catalog: d.CatalogOnly}
	for _, e := range d.Entries {
		c.Entries = append(c.Entries, Pair{Key: string([]byte(e.Key)), Value: string([]byte(e.Value))})
	}
	return c
}

// put stores a record. A client that disconnects meanwhile does not stop it.
func (q *Queue) put(ctx context.Context, record *Record, e *httplimit.Excess) (place int, err error) {
	data, err := record.Encode()
	if err != nil {
		return 0, err
	}
	data = q.options.Keys.Seal(record.ID, dataField, data)
	entry := &Entry{
		ID: record.ID, Line: lineOf(e.Line), Rule: ruleOf(e.Line), Who: whoOf(record.ID, clientOf(record)), State: Waiting,
		At: record.Received.Add(max(e.RetryAfter, 0)), Made: record.Received, Keep: record.Keep, Size: len(data), Data: data,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTimeout)
	defer cancel()
	return q.options.Storage.Put(ctx, entry, Bounds{Places: int(e.Settings.Places), Bytes: e.Settings.Bytes})
}

// The names of the encrypted fields.
const (
	dataField   = "data"
	answerField = "answer"
)

// clientOf returns who may see the record.
func clientOf(r *Record) string {
	if r.Identity != "" {
		return Identified(r.Identity)
	}
	return Anonymous(r.Client)
}

// accepted is the body of 202.
type accepted struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	Place  int    `json:"place,omitempty"` // in its line, 1 for the first; 0: not known
	Status string `json:"status"`          // path of the status resource
}

func writeAccepted(w http.ResponseWriter, id string, place int, wait time.Duration) {
	h := w.Header()
	h.Set("Location", StatusPath+id)
	h.Set("Preference-Applied", "respond-async")
	if wait > 0 && place > 1 {
		wait = min(wait, longestWait) * time.Duration(min(place, 1<<16))
	}
	writeJSON(w, http.StatusAccepted, wait, accepted{ID: id, State: Waiting, Place: place, Status: StatusPath + id})
}

// writeJSON answers with a body in JSON. wait becomes Retry-After, at least a second; negative for none.
func writeJSON(w http.ResponseWriter, status int, wait time.Duration, v any) {
	h := w.Header()
	if wait >= 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, int64((min(wait, longestWait)+time.Second-1)/time.Second)), 10))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(v)
	if err != nil {
		body = []byte("{}") // none of our types fails
	}
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has disconnected
}
