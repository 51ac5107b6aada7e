// Package limiter is the one path of a request: descriptors in, takes, store,
// verdict out. Every protocol and middleware goes through it.
package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"stint"
	"stint/rule"
	"stint/rule/catalog"
)

// The most that a request from the network may hold. Protocols refuse what is above
// while they decode it.
const (
	// MaxDescriptors is the most descriptors. All of them are decided as one, under one
	// lock of an in-memory store.
	MaxDescriptors = 1000

	// MaxEntries is the most entries of a descriptor. Rule files nest less deep.
	MaxEntries = 128

	// MaxKey is the most bytes of a domain, and of the key of an entry.
	MaxKey = 1 << 10

	// MaxValue is the most bytes of the value of an entry, and of the key of a limit that
	// the request brings. A value may be a header of the client, and Envoy takes 60 KiB of
	// headers where nothing else is configured. This is far above, because many proxies
	// let a request pass after an error, and a client must not be able to cause one.
	MaxValue = 256 << 10
)

// Descriptor is one description of a request and what it costs.
type Descriptor struct {
	Entries []rule.Entry

	// Cost is how many units each matching limit is asked for; 0 is a peek.
	Cost uint32

	// Refund gives Cost back rather than taking it, never below nothing used. It is
	// always allowed, and done whatever becomes of the other descriptors.
	Refund bool

	// CatalogOnly asks the rules of the catalog and not those of the table.
	CatalogOnly bool

	// Limit is decided by in place of the rules, in a bucket of the descriptor and the
	// period; nil: the rules. What no rule may be named by, such as a limit that is
	// elastic or counts answers, it cannot be. Domains that are not known are allowed all
	// the same.
	Limit *stint.Limit

	// Tally is what the store is asked in place of Limit, as [rule.Rule.Tally], unless the
	// domain is atomic. Nil: Limit.
	Tally *stint.Limit
}

// Request is what is decided as one.
type Request struct {
	Domain      string
	Descriptors []Descriptor

	// Attributes is the HTTP request itself, where the caller has it: lists of
	// addresses and headers (exempt, deny) look at it. Nil: they hold nothing.
	Attributes rule.Attributes

	// Table is the one to decide by, for callers that made the descriptors from one:
	// it may have been swapped since. Nil: the one in force.
	Table *rule.Table

	// Answers says that the caller will see the answer to the request and tell it to
	// Settle. False: limits that count answers charge every request at once.
	Answers bool

	// Op is stint.Ask for a decision; the other operations do to every matching
	// limit what their names say.
	Op stint.Op

	// Each decides every limit by itself, as those in shadow mode are: for callers that
	// let the request pass whatever the verdict says.
	Each bool

	// Quota takes all limits for such in quota mode: the request is denied only where
	// all of them deny.
	Quota bool

	// Debt denies a descriptor of cost 0 whose limit overdraws and has nothing left, and
	// with it the request; what that takes of other limits that overdraw stays charged, as
	// wherever a request is denied. One whose limit counts by a Tally is denied where more
	// than the limit is used. False: a peek is always allowed.
	Debt bool

	// OnFailure answers for a limit that the request brings where the store cannot;
	// rules say it themselves.
	OnFailure stint.Failure

	// At fixes the time; 0, which is what a server wants, is the store's own clock.
	At stint.Instant
}

// Observer is shown every decision once. It is called on the path of the request,
// from many goroutines, so it must be quick, must not block and must not keep v.
type Observer interface {
	// Decided gets the verdict, or the error where there is none. took is how long
	// the decision took; it is measured for the first request and one in 64 from then
	// on, and negative for the others, because reading a clock twice costs more than a
	// decision.
	Decided(v *Verdict, took time.Duration, err error)
}

// Options are the optional parts of a Limiter.
type Options struct {
	// Observer is shown every decision; nil: nobody is.
	Observer Observer

	// Catalog has rules beside those of the table, which are decided as one with them.
	// Nil: there are none.
	Catalog *catalog.Catalog

	// Secret keys hashes of secrets in keys, see [rule.KeySecret]. Nil: they stand there as
	// they are.
	Secret *rule.KeySecret

	// DenyUnmatched denies requests to which neither a limit nor a list applies. False: they
	// pass.
	DenyUnmatched bool

	// Unknown is told of domains that no rules have, keys is "" then, and of the keys of
	// descriptors that no descriptor of a domain has, up to the first that is unknown and
	// joined by slashes. It is called on the path of the request, so it must be quick, must
	// not block, and must not keep its arguments: their memory is used again. Nil: nobody is
	// told.
	Unknown func(domain, keys string)

	// Load returns what a gauge shows, 1 being all there is, and whether that is fresh.
	// Limits with `elastic: {from: load}` ask it on the path of each of their requests,
	// so it must be quick. Nil: no gauge is ever fresh, and nobody gets anything extra.
	Load func(gauge string) (load float64, fresh bool)
}

// Limiter decides requests by a table of rules and a store. It is safe for
// concurrent use, and the table may be swapped at any time: a request sees the old
// one or the new one, never half of each.
type Limiter struct {
	store    stint.Store
	observer Observer

	denyUnmatched bool
	load          func(gauge string) (load float64, fresh bool)
	catalog       *catalog.Catalog
	secret        *rule.KeySecret
	unknown       func(domain, keys string)
	measured      atomic.Bool // whether any decision was
	table         atomic.Pointer[rule.Table]
}

// New returns a limiter that decides by table and keeps its counts in store. A nil
// table matches nothing, which allows everything.
func New(store stint.Store, table *rule.Table, options Options) *Limiter {
	l := &Limiter{
		store: store, observer: options.Observer, load: options.Load, catalog: options.Catalog,
		secret: options.Secret, denyUnmatched: options.DenyUnmatched, unknown: options.Unknown,
	}
	l.table.Store(table)
	return l
}

// Table returns the table in force.
func (l *Limiter) Table() *rule.Table { return l.table.Load() }

// Catalog returns the rules beside those of the table, nil if there are none.
func (l *Limiter) Catalog() *catalog.Catalog { return l.catalog }

// Swap puts another table in force. Keys keep what they used.
func (l *Limiter) Swap(table *rule.Table) { l.table.Store(table) }

// Decide answers req into v, which the caller owns and may use again.
//
// All limits that match any descriptor are decided as one: all are charged, or, if
// one denies, none. Limits in shadow or quota mode, and all limits of a domain that
// is not atomic, are decided each by itself. A domain that neither the table nor the
// catalog knows and a descriptor that matches no rule are allowed, unless that holds of the
// whole request and Options.DenyUnmatched is set. The error says that the store could not decide;
// then v.Asked still lists the rules that were asked, and nothing else in v means
// anything.
//
// What limits with `count: responses` took is reserved, see Settle.
//
// A request in a list of its domain is decided by that alone, v.Listed: it passes
// without numbers, or is denied for good. The store is not asked. A call that takes
// nothing, be it a peek or another operation, asks the limits and no list.
func (l *Limiter) Decide(ctx context.Context, req *Request, v *Verdict) error {
	began := l.begin()
	v.reset(req)
	v.secret = l.secret
	if domain := l.domain(req); domain != nil && v.list(domain, req) {
		// The list has decided.
	} else {
		if rules := l.rules(req); domain != nil || rules != nil {
			v.match(domain, rules, req, l)
		} else {
			v.missing(req, l)
		}
		v.nothing(req, l.denyUnmatched)
	}
	err := v.ask(ctx, l.store)
	if err == nil {
		if req.Debt && v.owing() {
			l.turnDown(ctx, v)
		}
		v.conclude()
		l.settleUnseen(ctx, req, v)
	}
	l.end(v, began, err)
	return err
}

// DecideInline answers for a limit that the request itself brings. Its keys live
// in a namespace of their own, never a rule's.
func (l *Limiter) DecideInline(ctx context.Context, key string, limit *stint.Limit, req *Request, v *Verdict) error {
	began := l.begin()
	v.reset(req)
	v.inline(key, limit, req)
	err := v.ask(ctx, l.store)
	if err == nil {
		v.conclude()
	}
	l.end(v, began, err)
	return err
}

// Undo gives back what the decision v took, as if the request had never come: for
// a client that went away while it waited. A place in a leaky bucket that others
// queued behind passes unused. The second time it does nothing.
func (l *Limiter) Undo(ctx context.Context, v *Verdict) error {
	if !v.turnBack() {
		return nil
	}
	if err := l.store.Decide(ctx, &v.after); err != nil {
		return fmt.Errorf("giving back: %w", err)
	}
	return nil
}

// Settle ends what v has reserved, see Verdict.Reserved, now that the answer to the
// request has a status: limits that count such answers keep their charge, the others
// get back exactly what they took. What is never settled stays charged. The second
// time it does nothing.
func (l *Limiter) Settle(ctx context.Context, v *Verdict, status int) error {
	found := v.settle(func(a *rule.Answers) bool { return a.Charges(status) })
	v.undone = true // what was answered is not undone
	if !found {
		return nil
	}
	if err := l.store.Decide(ctx, &v.after); err != nil {
		return fmt.Errorf("settling an answer of status %d: %w", status, err)
	}
	return nil
}

// settleUnseen charges at once what is reserved for an answer that nobody will see.
// Where that fails it stays charged all the same, and only refills later.
func (l *Limiter) settleUnseen(ctx context.Context, req *Request, v *Verdict) {
	if v.reserved && !req.Answers && v.settle(func(*rule.Answers) bool { return true }) {
		_ = l.store.Decide(ctx, &v.after)
	}
}

func (l *Limiter) domain(req *Request) *rule.Domain {
	table := req.Table
	if table == nil {
		table = l.table.Load()
	}
	if table == nil {
		return nil
	}
	return table.Domain(req.Domain)
}

// rules returns the catalog where it has rules of the domain that is asked.
func (l *Limiter) rules(req *Request) *catalog.Catalog {
	if l.catalog == nil || !l.catalog.Has(req.Domain) {
		return nil
	}
	return l.catalog
}

// begin returns when the decision began if this is one that is measured.
func (l *Limiter) begin() time.Time {
	if l.observer == nil || rand.Uint32()%64 != 0 && l.measured.Load() {
		return time.Time{}
	}
	l.measured.Store(true)
	return time.Now()
}

func (l *Limiter) end(v *Verdict, began time.Time, err error) {
	if l.observer == nil {
		return
	}
	took := time.Duration(-1)
	if !began.IsZero() {
		took = time.Since(began)
	}
	l.observer.Decided(v, took, err)
}
