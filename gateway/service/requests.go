package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"stint/gateway/queue"
	"stint/gateway/queue/file"
	"stint/gateway/queue/gate"
	"stint/gateway/queue/operate"
	"stint/gateway/queue/stream"
	"stint/limiter"
	"stint/records/apikey"
	"stint/records/dbfile"
	"stint/store/redis/connect"
)

// requests is an open queue that configurations share, by its storage. The worker belongs to the last of
// them.
type requests struct {
	key     string
	place   string // of the storage
	storage queue.Storage
	stream  *stream.Storage // nil: it is a file
	counts  queue.Counts
	log     *logs

	mu    sync.Mutex // guards users
	users []*user
	ended sync.WaitGroup // workers that are being stopped
}

// user is a configuration that uses a queue.
type user struct {
	app    *App
	queue  *queue.Queue
	worker *queue.Worker // nil: it is stopped
}

var _ caddy.Destructor = (*requests)(nil)

// stopGrace is how long a worker that ends waits for answers.
const stopGrace = 8 * time.Second

// joinRequests returns the queue of a configuration, and opens it if nobody has.
func joinRequests(a *App) (*requests, error) {
	key := "queue " + a.Queue.Storage + "\x00" + a.config.Namespace
	found, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) { return openRequests(key, a) })
	if err != nil {
		return nil, err
	}
	r := found.(*requests)
	r.use(a)
	return r, nil
}

func openRequests(key string, a *App) (*requests, error) {
	r := &requests{key: key, place: a.Queue.Storage, log: newLogs(a)}
	var err error
	if connect.IsURL(a.Queue.Storage) {
		if r.stream, err = stream.Open(stream.Options{URL: a.Queue.Storage, Namespace: a.config.Namespace}); err == nil {
			r.storage = r.stream.Queue()
		}
	} else {
		var f *file.Storage
		if f, err = file.Open(a.Queue.Storage); err == nil {
			r.storage = f.Queue()
		}
	}
	if err != nil {
		return nil, Fault(cmp.Or(a.Queue.Place, "apps.stint.queue"), "queue "+connect.RedactURL(a.Queue.Storage)+": "+err.Error(), hintOf(err))
	}
	return r, nil
}

func hintOf(err error) string {
	if fault, ok := errors.AsType[*dbfile.Fault](err); ok {
		return fault.Hint
	}
	if fault, ok := errors.AsType[*connect.URLError](err); ok {
		return fault.Hint
	}
	return ""
}

// use makes a configuration the one that sends records.
func (r *requests) use(a *App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := &user{app: a}
	u.queue = queue.New(queue.Options{
		Storage: r.storage, Keys: a.Queue.keys, Secrets: a.secretsOf, Credential: credentialOf, Original: originalOf, Log: slog.New(r.log),
		Stored: func() { r.wake() },
	})
	if n := len(r.users); n > 0 {
		r.stopLocked(r.users[n-1])
	}
	r.users = append(r.users, u)
	r.startLocked(u)
}

// startLocked starts the worker of a configuration.
func (r *requests) startLocked(u *user) {
	a := u.app
	r.log.use(a)
	var publish func(context.Context) error
	if r.stream != nil && a.Queue.sends() == 0 {
		seal := func(id string, answer []byte) []byte { return a.Queue.keys.Seal(id, "answer", answer) }
		publish = (&stream.Publisher{Storage: r.stream, Seal: seal}).Publish
	}
	log := slog.New(r.log)
	u.worker = queue.NewWorker(queue.WorkerOptions{
		Storage: r.storage, Publish: publish, Keys: a.Queue.keys, Signer: a.Queue.signer, Sends: a.Queue.sends(), Counts: &r.counts, Log: log,
		Gate:    &gate.Gate{Limiter: a.limiterOf, Valid: a.keyIsValid, OnError: func(err error) { log.Error("a queued request is not settled", "error", err) }},
		Deliver: a.sites.Deliver,
		Rules:   a.rulesInForce,
	})
	u.worker.Start()
}

// stopLocked stops the worker of a configuration in the background, as it may wait for answers.
func (r *requests) stopLocked(u *user) {
	w := u.worker
	if w == nil {
		return
	}
	u.worker = nil
	r.ended.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		w.Stop(ctx)
	})
}

func (r *requests) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.users); n > 0 && r.users[n-1].worker != nil {
		r.users[n-1].worker.Wake()
	}
}

// queueOf returns the queue of a configuration; nil if it has left.
func (r *requests) queueOf(a *App) *queue.Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.users, func(u *user) bool { return u.app == a })
	if i < 0 {
		return nil
	}
	return r.users[i].queue
}

// leave ends the use by a configuration. If its worker sends records, as the configuration failed to start,
// that of the one before starts again.
func (r *requests) leave(a *App) error {
	r.mu.Lock()
	i := slices.IndexFunc(r.users, func(u *user) bool { return u.app == a })
	r.stopLocked(r.users[i])
	last := i == len(r.users)-1
	r.users = slices.Delete(r.users, i, i+1)
	if last && i > 0 {
		r.startLocked(r.users[i-1])
	}
	r.mu.Unlock()
	_, err := pool.Delete(r.key)
	return err
}

// Destruct waits for the workers, and closes the storage.
func (r *requests) Destruct() error {
	r.ended.Wait()
	if ctx := caddy.ActiveContext(); ctx.Context != nil && !caddy.Exiting() {
		r.warnLeft(ctx.Slogger())
	}
	return r.storage.Close()
}

// warnLeft warns of records that the configuration in force does not send, as its queue is elsewhere.
func (r *requests) warnLeft(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	stats, err := r.storage.Stats(ctx)
	if err != nil {
		log.Error("the queue has another place now: cannot count the requests in the old one", "queue", connect.RedactURL(r.place), "error", err)
		return
	}
	left := 0
	for _, s := range stats {
		left += s.Waiting
	}
	if left > 0 {
		log.Warn("the queue has another place now: this gateway does not send the requests in the old one", "queue", connect.RedactURL(r.place), "requests", left,
			"hint", "load the old configuration until its queue is empty")
	}
}

// limiterOf returns the limiter for records of a domain.
func (a *App) limiterOf(string) *limiter.Limiter {
	running, err := a.Service()
	if err != nil {
		return nil
	}
	return running.Limiter()
}

// rulesInForce returns the table of rules, which a reload replaces.
func (a *App) rulesInForce() any {
	if l := a.limiterOf(""); l != nil {
		return l.Table()
	}
	return nil
}

// AddSecret adds the name of a header with which clients prove who they are, when its provider is provisioned:
// the queue does not store it.
func (a *App) AddSecret(header string) {
	a.secretsMu.Lock()
	defer a.secretsMu.Unlock()
	a.secrets = append(a.secrets, header)
}

// secretsOf returns the fields of requests that providers of authentication, and the rules of a domain, use to
// identify clients.
func (a *App) secretsOf(domain string) (s queue.Secrets) {
	a.secretsMu.Lock()
	s.Headers = slices.Clone(a.secrets)
	a.secretsMu.Unlock()
	running, err := a.Service()
	if err != nil || running.Limiter().Table() == nil {
		return s
	}
	d := running.Limiter().Table().Domain(domain)
	if d == nil {
		return s
	}
	for _, element := range d.HTTP() {
		s.AddActions(element.Text)
	}
	return s
}

// keyIsValid reports whether the API key of a record is still valid.
func (a *App) keyIsValid(_ context.Context, r *queue.Record) (bool, error) {
	running, err := a.Service()
	if err != nil {
		return false, err
	}
	var hash apikey.Hash
	if running.Records() == nil || hash.UnmarshalText([]byte(r.Credential)) != nil {
		return false, nil
	}
	key, err := running.Records().Key(hash, time.Now())
	return key != nil && err == nil, err
}

// operations returns what operators can do with the queue of this configuration; nil if it has none.
func (a *App) operations() http.Handler {
	if a.Queue == nil || a.requests == nil {
		return nil
	}
	return operate.Handler{Operations: &operate.Local{Storage: a.requests.storage, Keys: a.Queue.keys, Changed: a.requests.wake}}
}
