package notify

import (
	"context"
	"time"
)

// State is what became of a delivery.
type State string

// The states of a delivery.
const (
	Waiting   State = "waiting"   // it is tried now or later
	Delivered State = "delivered" // the receiver has it
	Failed    State = "failed"    // given up, until somebody retries it by hand
)

// States are all states.
var States = []State{Waiting, Failed, Delivered}

// Delivery is an event on its way to one receiver. The name of the receiver and the ID of the event identify it.
type Delivery struct {
	Receiver string `json:"receiver"`
	Event    Event  `json:"event"`
	State    State  `json:"state"`
	Result

	// Due is when a waiting delivery is tried. A node that tries it right now has moved Due to the end of its
	// lease.
	Due time.Time `json:"due"`

	// Lease is the mark of the claim; "" outside of a claim.
	Lease string `json:"-"`
}

// Result is what the last try of a delivery resulted in. It is zero before the first try.
type Result struct {
	Tries   int       `json:"tries"`   // since the event, or since it was last retried by hand
	Tried   time.Time `json:"tried"`   // when the last try ended
	Status  int       `json:"status"`  // of HTTP; 0 without an answer
	Problem string    `json:"problem"` // why it failed; it contains no secret
}

const (
	// KeepDelivered is how long a delivered event is kept, so that an event which an outbox returns again is
	// not delivered again.
	KeepDelivered = 7 * 24 * time.Hour

	// KeepFailed is how long a failed delivery is kept.
	KeepFailed = 30 * 24 * time.Hour
)

// Queue keeps deliveries durably. Its methods may block for a moment. Nodes may share one: then each delivery is
// claimed by one of them at a time. It is safe for concurrent use.
type Queue interface {
	// Add stores waiting deliveries that are due now. It leaves those as they are that it already has in any
	// state. When it returns nil all of them survive a crash.
	Add(ctx context.Context, list []Delivery) error

	// Claim returns deliveries of a receiver that are due, oldest first, and keeps others from claiming them
	// until the lease ends. It returns none while the receiver is paused. It deletes what ended long ago, and the
	// oldest of what ended if more than Keep are kept.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Save stores the result of a claimed delivery. It does nothing if the lease has ended and another node has
	// claimed the delivery, unless it was delivered. After an error the delivery stays claimed until the lease ends.
	Save(ctx context.Context, d *Delivery, then Then) error

	// List returns deliveries, newest first, and the state of receivers.
	List(ctx context.Context, q Query) (List, error)

	// Retry makes a failed or delivered one wait again, due now and without tries; with "" for the ID all failed
	// ones of the receiver. It ends a pause of the receiver, and enables it. It returns how many there were.
	Retry(ctx context.Context, receiver, id string) (int, error)
}

// Claim says which deliveries a node wants.
type Claim struct {
	Receiver string
	Max      int
	Lease    time.Duration // from now on
	Keep     int           // the most failed deliveries, and the most delivered ones, that are kept
}

// Claimed is the answer to a claim.
type Claimed struct {
	Deliveries []Delivery
	Status     ReceiverStatus

	// Wait is how long until the next one is due; negative if none waits.
	Wait time.Duration

	// Dropped is how many failed ones were deleted because there were too many, since the last claim.
	Dropped int
}

// Then is what follows from the result of a try.
type Then struct {
	After   time.Duration // until the next try of a delivery that waits on
	Pause   time.Duration // how long not to try any of the receiver; 0: no pause
	Disable bool          // never try any of the receiver again, until somebody retries one by hand
}

// Query selects deliveries.
type Query struct {
	State    State
	Receiver string // "": all receivers
	Limit    int    // most deliveries
}

// List is the answer to a query.
type List struct {
	Deliveries []Delivery
	Receivers  map[string]ReceiverStatus // all receivers that ever had a delivery, by name
}

// ReceiverStatus is the state of a receiver.
type ReceiverStatus struct {
	Waiting, Failed, Delivered int       // deliveries that are kept
	Disabled                   time.Time // since when it is disabled; zero: it is not
	Paused                     time.Time // until when it is paused; zero or past: it is not
}

// The delays of Standard Webhooks: before the first try, the second, and so on; 75.6 hours together.
var delays = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// spread is the part of a delay by which it varies, so that deliveries that failed together are not tried again
// together.
const spread = 0.1

// nextDelay returns the delay after a number of tries, and whether there is another try. random is from 0 to 1.
func nextDelay(tries int, random float64) (time.Duration, bool) {
	if tries >= len(delays) {
		return 0, false
	}
	d := delays[tries]
	return d + time.Duration(float64(d)*spread*(2*random-1)), true
}
