package pacehttp

import (
	"time"

	"stint"
	"stint/pace"
)

// host is what a Transport knows of one key, which usually is a host. Its fields are
// guarded by the transport's mutex.
type host struct {
	pacer *pace.Pacer
	inUse int // calls of RoundTrip

	sent  uint64    // requests so far
	back  uint64    // those answered, or failed
	known uint64    // how many had passed the pacer when the answer came that bound is of
	bound uint64    // how many may have passed it by what the server had left then
	until time.Time // and for how long that counts
	trust uint64    // how many may have passed it since a pause, while the server does not say; 0: no bound
}

// enter returns the host of a name, in use.
func (t *Transport) enter(name string) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[name]
	if h == nil {
		if len(t.hosts) >= t.sweepAt {
			t.sweepLocked()
		}
		h = &host{pacer: pace.New(t.store, stint.Key(t.options.Name+"/"+name), t.limit)}
		h.pacer.Probe(t.options.MaxPause)
		t.hosts[name] = h
	}
	h.inUse++
	return h
}

func (t *Transport) leave(h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.inUse--
}

// leastSweep is how many hosts are kept without looking which of them are idle.
const leastSweep = 64

// sweepLocked forgets the hosts that nobody uses and that have nothing to say. The
// state of their limit is in the store.
func (t *Transport) sweepLocked() {
	now := time.Now()
	for name, h := range t.hosts {
		if h.inUse == 0 && !now.Before(h.until) && h.pacer.Paused() == 0 {
			delete(t.hosts, name)
		}
	}
	t.sweepAt = max(leastSweep, 2*len(t.hosts))
}

// depart counts a request that is being sent, and returns its number.
func (t *Transport) depart(h *host) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.sent++
	return h.sent
}

// arrive counts a request that has been answered, or failed, and shares out what the
// server said it has left.
//
// The server may or may not have counted the requests that are still flying, so they
// are taken off. An answer to a request that left after the last word was heard is
// newer than that word and replaces it. Any other may be older: it gives back the place
// of its own request at most, because what it says counts that. One that says nothing
// gives back none.
//
// After a pause only a probe is sent, and what comes back from before it says nothing
// of after it. Where the answer to the probe does not say what is left, each good
// answer lets two more go.
func (t *Transport) arrive(h *host, number uint64, a advice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.back++
	before, probing := h.pacer.Probing()
	switch {
	case a.budget || a.outcome == refused:
		h.trust = 0
	case probing && number > before:
		h.trust = h.pacer.Passed()
	}
	switch {
	case probing && number <= before:
		return
	case h.trust > 0:
		h.trust += uint64(a.outcome)
		h.pacer.Budget(h.trust, t.options.MaxPause)
		return
	}
	now := time.Now()
	running := now.Before(h.until)
	switch left := h.back + uint64(a.left); {
	case a.budget && (!running || number > h.known):
		h.bound, h.until, h.known = left, now.Add(a.during), h.pacer.Passed()
	case a.budget:
		h.bound = min(h.bound+1, left)
	case !running:
		return
	}
	passed := h.pacer.Passed()
	if during := h.until.Sub(now); h.bound <= passed && h.back == passed {
		h.pacer.Pause(during) // nothing is under way that could bring better news before
	} else {
		h.pacer.Budget(h.bound, during)
	}
}
