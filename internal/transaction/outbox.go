package transaction

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Outbox has the events of a store in memory that are not delivered yet, the oldest first. The zero
// Outbox is empty. It is safe for concurrent use.
type Outbox struct {
	mu     sync.Mutex
	events []Event
	ids    map[string]bool // of the events
	count  atomic.Int64    // len(events)
}

// Room returns how many events there is room for. Takes that ask at the same time may share it.
func (o *Outbox) Room() int { return max(0, MaxEvents-int(o.count.Load())) }

// Add appends an event, unless it is there already.
func (o *Outbox) Add(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[e.ID] {
		return
	}
	if o.ids == nil {
		o.ids = make(map[string]bool)
	}
	o.ids[e.ID] = true
	o.events = append(o.events, e)
	o.count.Store(int64(len(o.events)))
}

// First returns a copy of the oldest events, at most most.
func (o *Outbox) First(most int) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events[:min(most, len(o.events))])
}

// Done removes events by their IDs.
func (o *Outbox) Done(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		delete(o.ids, id)
	}
	o.events = slices.DeleteFunc(o.events, func(e Event) bool { return !o.ids[e.ID] })
	o.count.Store(int64(len(o.events)))
}
