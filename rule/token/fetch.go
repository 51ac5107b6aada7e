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
	// every is the interval between fetches of a key set. A key that the issuer removed is trusted
	// for at most this long.
	every = 15 * time.Minute

	// gap is the minimum time between a fetch and one caused by an unknown key ID, because anybody
	// can send invented key IDs.
	gap = time.Minute

	// firstRetry is the time before the first retry of a failed fetch; each further retry waits
	// twice as long, up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute

	// timeout limits a fetch with all redirects, maxRedirects the number of redirects, maxSet the
	// size of the answer in bytes.
	timeout      = 10 * time.Second
	maxRedirects = 3
	maxSet       = 1 << 20
)

// FetchOptions are the options of a Fetcher.
type FetchOptions struct {
	// Transport sends the requests. If nil, a new transport is used that verifies servers with the
	// system's certificate authorities and uses the proxy of the environment.
	Transport http.RoundTripper

	// Report is called with each error: a failed fetch (the old keys stay), or an invalid key that
	// is skipped. It is called with nil after each successful fetch. One goroutine for each address
	// calls it. Report may be nil.
	Report func(address string, err error)
}

// Fetcher fetches key sets in the background: at once, every 15 minutes, and when a token has an
// unknown key ID, then at most once a minute. If a fetch fails the old keys stay. A Fetcher is safe
// for concurrent use. Close stops it.
type Fetcher struct {
	options FetchOptions
	group   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	remotes map[string]*remote // by address
}

// NewFetcher returns a fetcher without addresses.
func NewFetcher(o FetchOptions) *Fetcher {
	return &Fetcher{options: o, remotes: make(map[string]*remote)}
}

// Use sets the addresses to fetch; it stops fetching all others. Each address gets the keys already
// known for it at once. An Address of an earlier call keeps the keys that it has.
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

// start starts fetching an address.
func (f *Fetcher) start(address string) *remote {
	ctx, cancel := context.WithCancel(context.Background())
	r := &remote{url: address, stop: cancel, asked: make(chan struct{}, 1), report: f.options.Report}
	transport := f.options.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DisableKeepAlives = true // otherwise a connection would stay open for 15 minutes
		transport = own
	}
	r.client = &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: checkRedirect}
	f.group.Go(func() { r.run(ctx) })
	return r
}

// checkRedirect allows redirects to https, and redirects within the same host if its address is
// http anyway.
func checkRedirect(req *http.Request, via []*http.Request) error {
	to, from := req.URL, via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case to.Scheme != "https" && (to.Scheme != from.Scheme || to.Host != from.Host):
		return fmt.Errorf("a redirect to %s://%s, where the keys would be sent without TLS", to.Scheme, to.Host)
	}
	return nil
}

// Close stops all fetches and waits until they have ended. Addresses keep their keys; a later Use
// has no effect.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	for _, r := range f.remotes {
		r.stop()
	}
	f.mu.Unlock()
	f.group.Wait()
}

// remote holds the keys of one address.
type remote struct {
	url    string
	client *http.Client
	report func(string, error)
	stop   context.CancelFunc
	asked  chan struct{} // buffered for one element
	keys   atomic.Pointer[Keys]
}

// ask requests a fetch and returns immediately.
func (r *remote) ask() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// run fetches the keys until ctx is done.
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
		case <-r.asked: // drop a request that arrived during the fetch
		default:
		}
		r.wait(ctx, next)
	}
}

// wait returns after next, or earlier if a fetch was requested and gap is over.
func (r *remote) wait(ctx context.Context, next time.Duration) {
	due, open := time.NewTimer(next), time.NewTimer(gap)
	defer due.Stop()
	defer open.Stop()
	var asked <-chan struct{} // nil: no request is received
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

// load fetches the keys once. On error the old keys stay.
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

// tell reports the result of a fetch, unless ctx is done.
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
