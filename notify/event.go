package notify

import (
	"context"
	"time"
)

// Event is that a subject's use of a limit reached a threshold in a period. There is one for each
// subject, limit, threshold and period.
type Event struct {
	// ID is a hash of the store's namespace, the rule, the limit, the subject, the threshold and the
	// period. The same event always has the same ID, on every node and after a restart.
	ID string

	Type string // "usage.threshold"

	Rule    string // DOMAIN/NAME of the rule
	Limit   string // name of the limit in a plan or on a node with several limits; "" if there is one
	Subject string // KEY=VALUE of the rule's last entry, such as "user=42"
	Plan    string // plan of the subject; "" for a rule without plans

	Threshold int    // percent of Of, 1 to 100
	Used, Of  uint64 // units used after the take that reached the threshold, and the limit then

	PeriodStart, PeriodEnd time.Time
	At                     time.Time // time of that take, by the clock of the store
}

// Outbox has the events of a store that no delivery engine has stored yet. A store writes an event in
// the same step as the take that causes it, so no crash separates the two. It is safe for concurrent
// use, and several nodes may read the outbox of one store at the same time: an event may be read
// twice, and its ID tells that it is one.
type Outbox interface {
	// Pending returns at most max events, of each subject and period in the order in which they
	// happened. It returns the same ones again until they are done.
	Pending(ctx context.Context, max int) ([]Event, error)

	// Done removes events by their IDs, after their deliveries are stored durably. An unknown ID is
	// no error: another node was faster.
	Done(ctx context.Context, ids []string) error
}
