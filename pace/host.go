package pace

import (
	"time"

	"stint"
)

// host is the state of one key, which usually is a host. Its fields are guarded by the transport's
// mutex.
type host struct {
	pacer *Pacer
	inUse int // running calls of RoundTrip

	sent  uint64    // requests sent so far
	back  uint64    // requests answered or failed
	known uint64    // value of Passed when the answer arrived that set bound
	bound uint64    // maximum of Passed by the requests that the server had left then
	until time.Time // time until which bound applies
	trust uint64    // maximum of Passed after a pause while the server does not report its remaining requests; 0: no bound
}

// enter returns the host of a name and marks it as used.
func (t *Transport) enter(name string) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[name]
	if h == nil {
		if len(t.hosts) >= t.sweepAt {
			t.sweepLocked()
		}
		h = &host{pacer: New(t.store, stint.Key(t.options.Name+"/"+name), t.limit)}
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

// leastSweep is the number of hosts below which idle hosts are not removed.
const leastSweep = 64

// sweepLocked removes unused hosts without a pause or budget. The state of their limit is in the
// store.
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

// arrive counts a request that was answered or failed, and sets the budget from the remaining
// requests that the server reported.
//
// It is unknown whether the server has counted the requests that are still under way, so they are
// subtracted. An answer to a request that was sent after the last report arrived is newer than that
// report and replaces it. Any other answer may be older: it returns at most the unit of its own
// request, because its report includes that. An answer without a report returns none.
//
// After a pause only a probe is sent, and answers to requests from before the pause are ignored. If
// the answer to the probe has no report, each successful answer allows two more requests.
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
		h.pacer.Pause(during) // no request is under way whose answer could allow more earlier
	} else {
		h.pacer.Budget(h.bound, during)
	}
}
