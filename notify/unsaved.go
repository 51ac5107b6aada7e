package notify

import (
	"sync"
	"time"
)

// mostUnsaved is the most results of a receiver that are kept in memory. Beyond it nothing is tried until one can be stored.
const mostUnsaved = 1000

// result is a try whose result could not be stored, such as on a full disk.
type result struct {
	delivery Delivery // after the try
	then     Then
	at       time.Time // when the try ended
}

// left returns what follows from the result from now on.
func (r *result) left(now time.Time) Then {
	past := now.Sub(r.at)
	return Then{max(0, r.then.After-past), max(0, r.then.Pause-past), r.then.Disable}
}

// unsaved has the results of a receiver that could not be stored. The queue takes these deliveries for ones that were not
// tried; without unsaved they would be sent again as soon as it hands them out. The zero unsaved is empty and ready for use.
type unsaved struct {
	mu      sync.Mutex
	results map[string]result // by the ID of the event
}

// add keeps a result, instead of an older one of the same event.
func (u *unsaved) add(r result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.results == nil {
		u.results = map[string]result{}
	}
	u.results[r.delivery.Event.ID] = r
}

// list returns all results.
func (u *unsaved) list() []result {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]result, 0, len(u.results))
	for _, r := range u.results {
		list = append(list, r)
	}
	return list
}

// forget removes the result of an event; with "" for the ID all those after which somebody may try an event by hand.
func (u *unsaved) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if id != "" {
		delete(u.results, id)
		return
	}
	for id, r := range u.results {
		if r.delivery.State == Failed {
			delete(u.results, id)
		} else {
			r.then.Pause = 0
			u.results[id] = r
		}
	}
}

// known reports whether a claimed delivery is not to be tried now, as the result of an earlier try says. If it is to be
// tried, it gets the result of the try before.
func (u *unsaved) known(d *Delivery, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r, ok := u.results[d.Event.ID]
	if !ok {
		return false
	}
	if r.delivery.State == Waiting && r.left(now).After == 0 {
		d.Result = r.delivery.Result
		return false
	}
	r.delivery.Lease = d.Lease // the result is that of the new claim now
	u.results[d.Event.ID] = r
	return true
}

// state returns what the results say about the receiver: how long to send it nothing, and whether it is disabled.
func (u *unsaved) state(now time.Time) (wait time.Duration, disabled bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.results) >= mostUnsaved {
		wait = claimEvery
	}
	for _, r := range u.results {
		wait = max(wait, r.left(now).Pause)
		disabled = disabled || r.then.Disable
	}
	return wait, disabled
}
