// Package limiter decides requests. It matches descriptors with rules, asks the store, and fills in
// a verdict. Every protocol and middleware uses it.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/limiter/line"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/denial"
)

// Limits for one request from the network. Protocols reject a larger request while they decode it.
const (
	// MaxDescriptors is the most descriptors of a request. All of them are decided as one, under
	// one lock of an in-memory store.
	MaxDescriptors = 1000

	// MaxEntries is the most entries of a descriptor. Rule files cannot nest as deep.
	MaxEntries = 128

	// MaxKey is the most bytes of a domain, and of the key of an entry.
	MaxKey = 1 << 10

	// MaxValue is the most bytes of the value of an entry, and of the key of a limit in the
	// request. A value may be a header of the client, and Envoy accepts 60 KiB of headers by
	// default. MaxValue is far above that, because many proxies let a request pass after an error,
	// and a client must not be able to cause such an error.
	MaxValue = 256 << 10
)

// Descriptor is one description of a request and its cost.
type Descriptor struct {
	Entries []rule.Entry

	// Cost is how many units to take from each matching limit; 0 is a peek.
	Cost uint32

	// Refund gives Cost back instead of taking it, but never more than was used. A refund is always
	// allowed and does not depend on the other descriptors.
	Refund bool

	// CatalogOnly matches the descriptor with rules of the catalog and not of the table.
	CatalogOnly bool

	// Limit replaces the rules for this descriptor. Its bucket is that of the entries and the
	// period. It cannot be elastic or count responses, and no rule can refer to it. It applies in
	// unknown domains too. Nil: the rules apply.
	Limit *stint.Limit

	// Tally replaces Limit in the call to the store, like [rule.Rule.Tally], unless the domain is
	// atomic. Nil: the call has Limit.
	Tally *stint.Limit
}

// Request is a set of descriptors that are decided as one.
type Request struct {
	Domain      string
	Descriptors []Descriptor

	// Attributes is the HTTP request. Lists of addresses and headers (exempt, deny) match it. Nil:
	// no such list applies.
	Attributes rule.Attributes

	// Table is the table to decide by, for callers that made the descriptors from it: it may have
	// been swapped since. Nil: the current table.
	Table *rule.Table

	// Matched means that another decision about the same HTTP request has found, or will find,
	// whether a limit applies to it, so that Options.DenyUnmatched does not deny it here.
	Matched bool

	// Answers means that the caller will see the response to the request and call Settle. False:
	// limits that count responses charge every request at once.
	Answers bool

	// Op is stint.Ask for a decision, or stint.AskAtMost for one about at most the cost of the
	// descriptors, which is the same for all; Verdict.Charged is then how many units each may use.
	// If a limit that matches is elastic or overdraws, or if two descriptors take from the same
	// key, the error is an [*AtMostError]. Another operation is done to every matching limit.
	Op stint.Op

	// Each decides every limit independently, like one in shadow mode, for callers that let the
	// request pass whatever the verdict is.
	Each bool

	// Quota puts all limits into quota mode: the request is denied only if all of them deny.
	Quota bool

	// Penalties asks the penalties of the limits too, in a look (all costs are 0), which otherwise
	// asks limits alone. They deny nothing then; see Verdict.Penalty.
	Penalties bool

	// Debt denies a descriptor of cost 0, and the whole request, if its limit overdraws and has
	// nothing remaining. Units of other limits that overdraw stay charged, as for any denied
	// request. A limit with a Tally denies if more than the limit is used. False: a peek is always
	// allowed.
	Debt bool

	// Hold is set by callers that hold or store the excess of limits. It is called if a limit with such
	// an excess matches, before any limit is asked, and returns Wait or Queue if the request has to wait
	// or to be stored because others do so before it, else Drop. Nil: excess is dropped.
	Hold func(v *Verdict) denial.Mode

	// OnFailure is the failure policy of limits in the request itself. Rules have their own.
	OnFailure stint.Failure

	// At is the time of the decision. 0, which servers use, means the clock of the store.
	At stint.Instant

	// ID is how the caller names the request, for logs: the header X-Request-Id. It may be empty.
	ID string
}

// Observer gets every decision once. It runs in the goroutine of the request, in many at a time, so
// it must be quick, must not block and must not keep v.
type Observer interface {
	// Decided gets the verdict, or the error if there is none. took is the duration of the
	// decision. It is measured for the first request and then for one in 64, and is negative for
	// the others, because reading a clock twice costs more than a decision.
	Decided(v *Verdict, took time.Duration, err error)
}

// Options are the optional parts of a Limiter.
type Options struct {
	// Observer gets every decision. Nil: there is none.
	Observer Observer

	// Catalog has further rules, which are decided together with those of the table. Nil: there are
	// none.
	Catalog *catalog.Catalog

	// Secret is the key for hashes of secrets in bucket keys, see [rule.KeySecret]. Nil: bucket
	// keys contain the hashes as they are.
	Secret *rule.KeySecret

	// DenyUnmatched denies requests to which neither a limit nor a list applies. False: they pass.
	DenyUnmatched bool

	// Unknown is called for each domain without rules, with keys "". It is also called for each
	// descriptor whose keys no descriptor of the domain has: keys are those up to the first unknown
	// one, joined by slashes. It runs in the goroutine of the request, so it must be quick, must
	// not block, and must not keep its arguments, because their memory is used again. Nil: it is
	// not called.
	Unknown func(domain, keys string)

	// Load returns the value of a gauge, from 0 to 1, and whether it is fresh. Each request of a
	// limit with `elastic: {from: load}` calls it, so it must be quick. Nil: no gauge is ever
	// fresh, and no such limit is raised.
	Load func(gauge string) (load float64, fresh bool)

	// Records are bans and overrides for single clients. Nil: there are none.
	Records Records

	// Tracer follows decisions. Nil: there are no traces, and no cost.
	Tracer Tracer
}

// Limiter decides requests by a table of rules and a store. It is safe for concurrent use. The
// table may be swapped at any time: each request uses either the old one or the new one.
type Limiter struct {
	store    stint.Store
	observer Observer
	tracer   Tracer

	denyUnmatched bool
	load          func(gauge string) (load float64, fresh bool)
	catalog       *catalog.Catalog
	secret        *rule.KeySecret
	unknown       func(domain, keys string)
	records       Records
	overridden    rule.Variants
	lines         *line.Lines
	measured      atomic.Bool // whether any decision was measured
	table         atomic.Pointer[rule.Table]
	tries         transaction.Tries
}

// New returns a limiter that decides by table and keeps its counts in store. A nil table matches
// nothing, so everything is allowed.
func New(store stint.Store, table *rule.Table, options Options) *Limiter {
	l := &Limiter{
		store: store, observer: options.Observer, tracer: options.Tracer, load: options.Load, catalog: options.Catalog,
		secret: options.Secret, denyUnmatched: options.DenyUnmatched, unknown: options.Unknown,
		records: options.Records, lines: line.New(),
	}
	l.tries.Decide = l.reportTries
	l.table.Store(table)
	return l
}

// Table returns the current table.
func (l *Limiter) Table() *rule.Table { return l.table.Load() }

// Catalog returns the catalog, nil if there is none.
func (l *Limiter) Catalog() *catalog.Catalog { return l.catalog }

// Lines are the lines of requests that wait for limits with `excess: wait`. All middlewares of a
// limiter share them. A server that shuts down calls their Drain.
func (l *Limiter) Lines() *line.Lines { return l.lines }

// Swap replaces the table. Keys keep their used units.
func (l *Limiter) Swap(table *rule.Table) {
	l.table.Store(table)
	l.overridden.Forget()
	waits := map[[2]string]bool{}
	if table != nil {
		for _, r := range table.All() { // rules of plans have the name of their place
			if denial.ModeOf(r.Excess) == denial.Wait {
				waits[[2]string{r.Domain, r.Name}] = true
			}
		}
	}
	l.lines.Changed(time.Now(), func(domain, rule string) bool { return waits[[2]string{domain, rule}] })
}

// Decide decides req and fills in v, which the caller owns and may use again.
//
// All limits that match any descriptor are decided as one: all are charged, or, if one denies,
// none. Limits in shadow or quota mode, and all limits of a domain that is not atomic, are decided
// independently. A domain that neither the table nor the catalog has is allowed, and so is a
// descriptor that matches no rule. If this is so for the whole request, Options.DenyUnmatched
// denies it. If the store cannot decide, Decide returns an error; then v.Asked still lists the
// rules that were asked, and nothing else in v has a meaning.
//
// A limit with a penalty denies the request while a step of it runs, see Asked.Penalized.
//
// Units taken from limits with `count: responses` are reserved, see Settle.
//
// A ban of an entry or of the client's address denies the request (see Options.Records) before
// anything else decides. An override gives the limits of a descriptor other numbers; Verdict.Asked then
// has copies of the rules, whose Base is the rule of the table.
//
// If the request is in a list of its domain, only the list, v.Listed, decides, without the store:
// the request passes without numbers, or is denied forever. A call that takes nothing, a peek or
// another operation, skips the lists and asks the limits.
func (l *Limiter) Decide(ctx context.Context, req *Request, v *Verdict) error {
	began := l.begin(1)
	v.reset(req)
	if l.tracer != nil {
		ctx, v.trace = l.tracer.Begin(ctx)
	}
	v.secret = l.secret
	domain := l.domain(req)
	switch {
	case l.records != nil && v.lookUp(req, domain, l.records):
		// A ban decided.
	case domain != nil && v.decideByList(domain, req):
		// The list decided.
	default:
		if rules := l.rules(req); domain != nil || rules != nil {
			v.match(domain, rules, req, l)
		} else {
			v.missing(req, l)
		}
		v.concludeUnmatched(req, l.denyUnmatched && !req.Matched)
	}
	blocked, err := v.hold(ctx, req, l.store)
	if v.Pending {
		v.endTrace(nil)
		return nil
	}
	if err == nil {
		err = v.ask(ctx, req, l.store)
	}
	v.undone = err != nil // nobody knows what was taken
	if err == nil {
		if req.Debt && v.denyDebts() {
			l.revoke(ctx, v)
		}
		e, _ := v.excess()
		v.Pending = req.Hold != nil && e != nil
		if len(v.Candidates) > 0 && !v.Pending {
			l.settleCandidates(ctx, v)
		}
		if len(v.penalties) > 0 && !v.Pending {
			l.countDenied(ctx, v)
			v.waitForAll()
		}
		v.conclude()
		v.concludeAtMost(req)
		l.settleUnseen(ctx, req, v)
		if blocked && v.Allowed && !v.Degraded {
			l.holdBack(ctx, v)
		}
	}
	if !v.Pending {
		l.end(v, began, err)
	}
	v.endTrace(err)
	return err
}

// DecideInline decides by a limit that the request itself contains. Its keys have a namespace of
// their own, separate from rules.
func (l *Limiter) DecideInline(ctx context.Context, key string, limit *stint.Limit, req *Request, v *Verdict) error {
	began := l.begin(1)
	v.reset(req)
	if l.tracer != nil {
		ctx, v.trace = l.tracer.Begin(ctx)
	}
	v.inline(key, limit, req)
	err := v.ask(ctx, req, l.store)
	if err == nil {
		v.conclude()
		v.concludeAtMost(req)
	}
	l.end(v, began, err)
	v.endTrace(err)
	return err
}

// Undo gives back the units that decision v took, as if the request had never come, for a client
// that disconnected while it waited. In a leaky bucket its slot passes unused if others queued
// behind it. It does so even if ctx has ended, within a second. A second call does nothing.
func (l *Limiter) Undo(ctx context.Context, v *Verdict) error {
	if !v.undo() {
		return nil
	}
	if err := transaction.DecideAfter(ctx, l.store, &v.after); err != nil {
		return fmt.Errorf("undoing a decision: %w", err)
	}
	return nil
}

// Settle ends the reservations of v, see Verdict.Reserved, once the status of the response is
// known. Limits that count this status keep their charge, and the others get back exactly the units
// they took, even if ctx has ended, within a second. Reservations that are never settled stay charged. A second
// call does nothing.
func (l *Limiter) Settle(ctx context.Context, v *Verdict, status int) error {
	found := v.settle(func(a *rule.Answers) bool { return a.Charges(status) })
	v.undone = true // a settled decision is not undone
	if !found {
		return nil
	}
	if err := transaction.DecideAfter(ctx, l.store, &v.after); err != nil {
		return fmt.Errorf("settling a response of status %d: %w", status, err)
	}
	return nil
}

// settleUnseen charges the reservations at once if the caller will not see the response. On an
// error of the store they stay charged too, and the limit only refills with time.
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

// rules returns the catalog, or nil if it has no rules of the domain.
func (l *Limiter) rules(req *Request) *catalog.Catalog {
	if l.catalog == nil || !l.catalog.Has(req.Domain) {
		return nil
	}
	return l.catalog
}

// begin returns the current time if one of the next n decisions is measured, else the zero time.
func (l *Limiter) begin(n uint32) time.Time {
	if l.observer == nil || rand.Uint32()%64 >= n && l.measured.Load() {
		return time.Time{}
	}
	if !l.measured.Load() {
		l.measured.Store(true) // only once, as all processors read what lies beside it
	}
	return time.Now()
}

// end passes the verdict to the observer, unless the request itself was wrong.
func (l *Limiter) end(v *Verdict, began time.Time, err error) {
	if l.observer == nil {
		return
	}
	if _, wrong := errors.AsType[*AtMostError](err); wrong {
		return
	}
	l.observer.Decided(v, took(began), err)
}

// took returns the time since began; -1 if that is zero.
func took(began time.Time) time.Duration {
	if began.IsZero() {
		return -1
	}
	return time.Since(began)
}
