package service

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/queue"
	"stint/gateway/queue/route"
	"stint/gateway/queue/seal"
	"stint/store/redis/connect"
)

// Queue are the settings of the queue for requests that limits with `excess: queue` deny.
type Queue struct {
	// Storage is a file, or the URL of a Redis: redis://...
	Storage string `json:"storage"`

	// KeyFile is the file of the keys that encrypt records, see package seal. "": they are in clear.
	KeyFile string `json:"key_file,omitempty"`

	// IdentityKeyFile is the file of the key that signs the identity of a client for the upstream. "": the
	// upstream gets no Stint-Identity.
	IdentityKeyFile string `json:"identity_key_file,omitempty"`

	// Worker is false if other programs read the stream in Redis and send the records. Nil means true.
	Worker *bool `json:"worker,omitempty"`

	// Workers is how many records this gateway sends at a time. 0 means 8.
	Workers int `json:"workers,omitempty"`

	// Place is the place in the configuration file, for errors, and Places those of the files of keys by
	// the names of their fields, such as key_file.
	Place  string            `json:"place,omitempty"`
	Places map[string]string `json:"places,omitempty"`

	keys   *seal.Keys
	signer *queue.Signer
}

const (
	defaultWorkers = 8
	maxWorkers     = 1000
)

// queueWords are the words of the block stint that are about the queue.
var queueWords = map[string]func(q *Queue, place string, args []string) error{
	"queue": func(q *Queue, place string, args []string) error {
		q.Place = place
		return setText(&q.Storage, place, "queue", args, "write queue FILE, or queue redis://HOST:PORT")
	},
	"queue-key-file": func(q *Queue, place string, args []string) error {
		q.setPlace("key_file", place)
		return setText(&q.KeyFile, place, "queue_key_file", args, "write queue_key_file FILE")
	},
	"queue-identity-key-file": func(q *Queue, place string, args []string) error {
		q.setPlace("identity_key_file", place)
		return setText(&q.IdentityKeyFile, place, "queue_identity_key_file", args, "write queue_identity_key_file FILE")
	},
	"worker": func(q *Queue, place string, args []string) error {
		if len(args) != 1 || args[0] != "on" && args[0] != "none" {
			return Fault(place, fmt.Sprintf("worker: unknown words %q", args), "write worker on (the default), or worker none if your own programs send the requests")
		}
		on := args[0] == "on"
		q.Worker = &on
		return nil
	},
	"workers": func(q *Queue, place string, args []string) error {
		if len(args) == 1 {
			if n, err := strconv.Atoi(args[0]); err == nil && n >= 1 && n <= maxWorkers {
				q.Workers = n
				return nil
			}
		}
		return Fault(place, fmt.Sprintf("workers: unknown words %q", args), fmt.Sprintf("write 1 to %d: how many requests are sent at a time", maxWorkers))
	},
}

func setText(to *string, place, word string, args []string, hint string) error {
	if len(args) != 1 || args[0] == "" {
		return Fault(place, word+" takes one value", hint)
	}
	if *to != "" {
		return Fault(place, word+" is given twice", "keep one of the two")
	}
	*to = args[0]
	return nil
}

// parseQueue reads a word about the queue. It reports false for any other word.
func (a *App) parseQueue(d *caddyfile.Dispenser, name string) (bool, error) {
	set := queueWords[name]
	if set == nil {
		return false, nil
	}
	if a.Queue == nil {
		a.Queue = &Queue{Place: Place(d)}
	}
	return true, set(a.Queue, Place(d), d.RemainingArgs())
}

// setPlace remembers the place of a field.
func (q *Queue) setPlace(field, place string) {
	if q.Places == nil {
		q.Places = map[string]string{}
	}
	q.Places[field] = place
}

// placeOf returns the place of a field, for errors.
func (q *Queue) placeOf(field string) string {
	return cmp.Or(q.Places[field], "apps.stint.queue."+field)
}

// provision checks the settings, and reads the keys. It opens nothing.
func (q *Queue) provision() (err error) {
	place := cmp.Or(q.Place, "apps.stint.queue")
	if q.Storage == "" {
		return Fault(place, "settings of a queue without a queue", "add queue FILE, or queue redis://HOST:PORT")
	}
	isRedis := connect.IsURL(q.Storage)
	if isRedis {
		if _, err := connect.ParseURL(q.Storage); err != nil {
			return Fault(place, err.Error(), hintOf(err))
		}
	}
	if q.Worker != nil && !*q.Worker && !isRedis {
		return Fault(place, "worker none with a file: nobody else can read it", "use queue redis://HOST:PORT, or worker on")
	}
	if q.KeyFile != "" {
		if q.keys, err = seal.Load(q.KeyFile); err != nil {
			return Fault(q.placeOf("key_file"), err.Error(), "make a key with openssl rand -base64 32")
		}
	}
	if q.IdentityKeyFile == "" {
		return nil
	}
	if q.signer, err = queue.LoadSigner(q.IdentityKeyFile); err != nil {
		return Fault(q.placeOf("identity_key_file"), err.Error(), "make a key with openssl rand -base64 32, and give it to the upstream")
	}
	return nil
}

// sends is how many records are sent at a time.
func (q *Queue) sends() int {
	switch {
	case q.Worker != nil && !*q.Worker:
		return 0
	case q.Workers == 0:
		return defaultWorkers
	}
	return q.Workers
}

// AddSite adds a handler that may queue requests, when it is provisioned.
func (a *App) AddSite(site route.Site) { a.sites.Add(site) }

// Sites returns all handlers that were added.
func (a *App) Sites() []route.Site { return a.sites.All() }

// Requests returns the running queue; nil if the configuration has none. Like Service it must not be
// called before the configuration is started.
func (a *App) Requests() (*queue.Queue, error) {
	if a.Queue == nil {
		return nil, nil //nolint:nilnil // no queue is no error
	}
	if _, err := a.Service(); err != nil {
		return nil, err
	}
	return a.requests.queueOf(a), nil
}

// originalOf returns path and query of a request as the client sent it.
func originalOf(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		return original.URL.RequestURI()
	}
	return r.URL.RequestURI()
}

// credentialOf returns the name of the record of the API key that a client proved its identity with.
func credentialOf(r *http.Request) string {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	id, _ := replacer.GetString("http.auth.user.key_id")
	return id
}
