package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is how often a key set is fetched where nothing asks for it sooner, and so
	// how long a key is believed that the issuer took out.
	every = 15 * time.Minute

	// gap is how long at least a fetch that tokens ask for waits after the one before,
	// because anybody can make up the ids of keys.
	gap = time.Minute

	// firstRetry is how soon a fetch that failed is tried again; each further one waits
	// twice as long, up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute

	// timeout bounds a fetch with all its redirects, maxRedirects their number, maxSet
	// the bytes of the answer.
	timeout      = 10 * time.Second
	maxRedirects = 3
	maxSet       = 1 << 20
)

// FetchOptions say how key sets are fetched.
type FetchOptions struct {
	// Transport carries the requests. Nil: one of its own, which verifies servers by
	// the authorities of the system and uses the proxy of the environment.
	Transport http.RoundTripper

	// Report is told of each fetch that failed (the keys before stay), of each key that
	// was passed over because it is broken, and, with nil, of each fetch that
	// succeeded. It is called by one goroutine for each address. Nil: nobody is told.
	Report func(address string, err error)
}

// Fetcher fetches the key sets of addresses in the background: at once, every 15
// minutes, and when a token bears the id of a key that is not known, then at most
// once a minute. While an address is down its keys stay as they were. It is safe for
// concurrent use. Close ends it.
type Fetcher struct {
	options FetchOptions
	group   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	remotes map[string]*remote // by address
}

// NewFetcher returns a fetcher that fetches nothing yet.
func NewFetcher(o FetchOptions) *Fetcher {
	return &Fetcher{options: o, remotes: make(map[string]*remote)}
}

// Use gives the addresses their keys, those that are known already at once, and from
// now on fetches these and no others. Addresses that were in use before keep the keys
// that they have.
func (f *Fetcher) Use(addresses []*Address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	before := f.remotes
	f.remotes = make(map[string]*remote)
	for _, a := range addresses {
		r := f.remotes[a.url]
		if r == nil {
			if r = before[a.url]; r == nil {
				r = f.start(a.url)
			}
			f.remotes[a.url] = r
		}
		a.remote.Store(r)
	}
	for address, r := range before {
		if f.remotes[address] == nil {
			r.stop()
		}
	}
}

// start begins to fetch an address.
func (f *Fetcher) start(address string) *remote {
	ctx, cancel := context.WithCancel(context.Background())
	r := &remote{url: address, stop: cancel, asked: make(chan struct{}, 1), report: f.options.Report}
	transport := f.options.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DisableKeepAlives = true // it would hold a connection for 15 minutes
		transport = own
	}
	r.client = &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: checkRedirect}
	f.group.Go(func() { r.run(ctx) })
	return r
}

// checkRedirect follows redirects to https, and such as stay on a host that is asked
// in the clear anyway.
func checkRedirect(req *http.Request, via []*http.Request) error {
	to, from := req.URL, via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case to.Scheme != "https" && (to.Scheme != from.Scheme || to.Host != from.Host):
		return fmt.Errorf("a redirect to %s://%s, from where the keys would come in the clear", to.Scheme, to.Host)
	}
	return nil
}

// Close ends all fetches and waits until they are gone. Addresses keep the keys that
// they have; Use does nothing any more.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	for _, r := range f.remotes {
		r.stop()
	}
	f.mu.Unlock()
	f.group.Wait()
}

// remote is the keys of one address.
type remote struct {
	url    string
	client *http.Client
	report func(string, error)
	stop   context.CancelFunc
	asked  chan struct{} // has room for one
	keys   atomic.Pointer[Keys]
}

// ask asks for a fetch, and does not wait for it.
func (r *remote) ask() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// run fetches until ctx is done.
func (r *remote) run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		next := every
		if err := r.load(ctx); err != nil {
			next, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		select {
		case <-r.asked: // while it was fetched: that is answered
		default:
		}
		r.wait(ctx, next)
	}
}

// wait waits for next, or until somebody asks and gap is over.
func (r *remote) wait(ctx context.Context, next time.Duration) {
	due, open := time.NewTimer(next), time.NewTimer(gap)
	defer due.Stop()
	defer open.Stop()
	var asked <-chan struct{} // nil: nobody is heard
	for {
		select {
		case <-open.C:
			asked = r.asked
		case <-asked:
			return
		case <-due.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// load fetches the keys once. On an error those before stay.
func (r *remote) load(ctx context.Context) error {
	data, err := r.fetch(ctx)
	var keys *Keys
	var broken []error
	if err == nil {
		keys, broken, err = parseSet(data)
	}
	if err != nil {
		r.tell(ctx, err)
		return err
	}
	r.keys.Store(keys)
	r.tell(ctx, errors.Join(broken...))
	return nil
}

// tell reports what became of a fetch, unless that was ended.
func (r *remote) tell(ctx context.Context, err error) {
	if r.report != nil && ctx.Err() == nil {
		r.report(r.url, err)
	}
}

func (r *remote) fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSet+1))
	if err == nil && len(data) > maxSet {
		err = fmt.Errorf("the answer has more than %d bytes", maxSet)
	}
	return data, err
}
