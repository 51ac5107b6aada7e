package stores

import (
	"cmp"
	"context"
	"slices"

	"stint"
	"stint/internal/transaction"
	"stint/notify"
)

// keeper is a store that keeps histories and has an outbox.
type keeper interface {
	Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error)
	Usages(ctx context.Context, yield func(transaction.Usage) bool) error
	Pending(ctx context.Context, max int) ([]transaction.Event, error)
	Done(ctx context.Context, ids []string) error
}

// keepers returns the stores that have the histories: memory, or all servers on the network.
func (st *Stores) keepers() []keeper {
	if !st.OnNetwork() {
		return []keeper{st.memory}
	}
	var all []keeper
	for _, one := range st.servers {
		if one.redis != nil { // rules with usage or notify are refused with memcached
			all = append(all, one.redis)
		}
	}
	return all
}

// KeepsUsage reports whether the store keeps histories and grants.
func (st *Stores) KeepsUsage() bool { return len(st.keepers()) > 0 }

// Usage returns the history of a take's key. If several servers have some of it, because keys moved, it
// is that of all of them. A book may outlive the history.
func (st *Stores) Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error) {
	sum := transaction.UsageOf(t)
	for _, k := range st.keepers() {
		u, err := k.Usage(ctx, t)
		if err != nil {
			return sum, err
		}
		sum = sum.Join(&u)
	}
	return sum, nil
}

// Usages calls yield for each history until it returns false. If several servers have a part of one, because keys
// moved, each part is one of its own.
func (st *Stores) Usages(ctx context.Context, yield func(transaction.Usage) bool) error {
	more := true
	for _, k := range st.keepers() {
		if !more {
			break
		}
		err := k.Usages(ctx, func(u transaction.Usage) bool {
			more = yield(u)
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Outbox returns the outbox of the stores.
func (st *Stores) Outbox() notify.Outbox { return outbox{st} }

// outbox is the outbox of all stores together.
type outbox struct{ st *Stores }

// Pending implements notify.Outbox. After an error of one server it returns the events of the others.
func (o outbox) Pending(ctx context.Context, max int) (all []notify.Event, err error) {
	var failed error
	for _, k := range o.st.keepers() {
		events, err := k.Pending(ctx, max-len(all))
		failed = cmp.Or(failed, err)
		for i := range events {
			all = append(all, eventOf(&events[i]))
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, failed
}

// Done implements notify.Outbox.
func (o outbox) Done(ctx context.Context, ids []string) (err error) {
	for _, k := range o.st.keepers() {
		err = cmp.Or(err, k.Done(ctx, slices.Clone(ids)))
	}
	return err
}

// eventOf returns an event of a store for those who deliver it.
func eventOf(e *transaction.Event) notify.Event {
	return notify.Event{
		ID: e.ID, Type: "usage.threshold", Rule: e.RuleName(), Limit: e.Limit, Subject: e.Subject, Plan: e.Plan,
		Threshold: int(e.Threshold), Used: e.Used, Of: e.Of, PeriodStart: e.Start.Time().UTC(), PeriodEnd: e.End.Time().UTC(), At: e.At.Time().UTC(),
	}
}
