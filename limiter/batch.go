package limiter

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"stint"
	"stint/rule"
)

// Batch are requests that each have one limit: either all have one of their own, see DecideInline, or all have one of
// a rule, see Join. They are decided in one call to the store, which is faster than one call each, but each by itself
// and in order. The zero Batch is empty, and keeps its memory from one use to the next. Only one goroutine may use it
// at a time.
type Batch struct {
	call stint.Call
	keys []byte

	// Of requests by rules.
	ruled   []ruled
	hows    []stint.Handling // requests with the same rule that follow each other share one
	table   *rule.Table
	domain  *rule.Domain // of the last request, in table; nil: its requests cannot join
	turn    uint64       // how many requests the batches before had
	verdict Verdict
}

// ruled is the part of a request that only requests by rules have.
type ruled struct {
	rule       *rule.Rule
	domain     string
	descriptor Descriptor
}

// Len returns how many requests the batch has.
func (b *Batch) Len() int { return len(b.call.Takes) }

// Clear empties the batch.
func (b *Batch) Clear() {
	b.turn += uint64(len(b.call.Takes))
	b.call.Takes, b.keys = b.call.Takes[:0], b.keys[:0]
	clear(b.ruled) // the entries are those of the caller
	b.ruled, b.hows, b.domain = b.ruled[:0], b.hows[:0], nil
}

// Add adds a request for cost units of limit for a key, which is copied.
func (b *Batch) Add(key []byte, limit *stint.Limit, cost uint32) {
	from := len(b.keys)
	b.keys = append(append(b.keys, inlineSpace), key...)
	// If the keys move to a larger buffer, this one stays as it is.
	b.call.Takes = append(b.call.Takes, stint.Take{
		Key: stint.Key(unsafe.String(&b.keys[from], len(b.keys)-from)), Limit: limit, Cost: cost, Independent: true,
	})
}

// Key returns the key of request number i. It is valid until the batch is cleared.
func (b *Batch) Key(i int) string { return string(b.call.Takes[i].Key)[1:] }

// Decision returns the decision on request number i.
func (b *Batch) Decision(i int) *stint.Decision { return &b.call.Results[i] }

// Take returns what the store was asked for request number i.
func (b *Batch) Take(i int) *stint.Take { return &b.call.Takes[i] }

// Rule returns the rule of request number i; nil if it has a limit of its own.
func (b *Batch) Rule(i int) *rule.Rule {
	if i >= len(b.ruled) {
		return nil
	}
	return b.ruled[i].rule
}

// Turn returns a number that is one larger for each request, for observers that sample.
func (b *Batch) Turn(i int) uint64 { return b.turn + uint64(i) }

// Join adds a request for cost units by rules to a batch that has only such requests. It reports whether it did: only if one
// limit applies, and nothing else (see [rule.Domain.Plain]): no rule of the catalog, and no record. Every other request is
// for Decide, after the batch. The domain and the entries must stay as they are until the batch is cleared.
func (l *Limiter) Join(b *Batch, domain string, entries []rule.Entry, cost uint32) bool {
	if table := l.table.Load(); table != b.table || b.domain == nil || b.domain.Name() != domain {
		b.table, b.domain = table, l.domain(&Request{Domain: domain})
	}
	r, n, from := b.domain.Plain(entries), len(b.ruled), len(b.keys)
	if r == nil || l.catalog != nil && l.catalog.Has(domain) || l.records != nil && l.recorded(b.domain, entries) {
		return false
	}
	if n == 0 || b.ruled[n-1].rule != r {
		b.hows = append(b.hows, stint.Handling{OnFailure: r.OnStoreFailure, Local: r.Local, Terms: r.Terms})
	}
	b.ruled = append(b.ruled, ruled{r, domain, Descriptor{Entries: entries, Cost: cost}})
	b.keys = r.AppendKeyed(append(b.keys, ruleSpace), entries, l.secret)
	b.call.Takes = append(b.call.Takes, stint.Take{
		Key: stint.Key(unsafe.String(&b.keys[from], len(b.keys)-from)), Limit: r.Stored, Cost: cost, Independent: true, Handling: &b.hows[len(b.hows)-1],
	})
	return true
}

// recorded reports whether records may say something about a request.
func (l *Limiter) recorded(domain *rule.Domain, entries []rule.Entry) bool {
	for i := range entries {
		if key := entries[i].Key; l.records.Mentions(key) || domain.HoldsAddress(key) {
			return true
		}
	}
	return false
}

// Verdict returns the verdict on request number i, which has a rule. It is valid until the next call.
func (b *Batch) Verdict(i int) *Verdict {
	v, one := &b.verdict, &b.ruled[i]
	v.reset(&Request{Domain: one.domain, Descriptors: unsafe.Slice(&one.descriptor, 1)})
	v.turn = b.Turn(i)
	v.Asked = append(v.Asked, Asked{Rule: one.rule, Cost: one.descriptor.Cost, Decision: *b.Decision(i)})
	v.taken, v.call.Takes = append(v.taken, 0), append(v.call.Takes, *b.Take(i))
	v.conclude()
	return v
}

// Reason returns why request number i, which has a rule, was denied.
func (b *Batch) Reason(i int) Reason {
	switch d := b.Decision(i); {
	case d.Allowed:
		return ""
	case d.Degraded:
		return b.Verdict(i).Reason()
	}
	return ReasonRateLimited // nothing else denies requests of a batch
}

// BatchObserver is an Observer that takes the decisions of a batch at once.
type BatchObserver interface {
	Observer

	// DecidedBatch gets the decisions of a batch, or the error if there are none. took is the duration of
	// all of it, and is negative if it was not measured. Lists and bans have no part in it.
	DecidedBatch(b *Batch, took time.Duration, err error)
}

// Batches reports whether DecideBatch may be called: not if decisions are traced, or observed, one by one.
func (l *Limiter) Batches() bool {
	_, takes := l.observer.(BatchObserver)
	return l.tracer == nil && (l.observer == nil || takes)
}

// DecideBatch decides the requests of a batch, each as DecideInline or Decide does. After an error none has a
// decision.
func (l *Limiter) DecideBatch(ctx context.Context, b *Batch) error {
	began := l.begin(uint32(b.Len()))
	err := l.store.Decide(ctx, &b.call)
	if err != nil {
		err = fmt.Errorf("deciding %d limits: %w", b.Len(), err)
	}
	if o, takes := l.observer.(BatchObserver); takes {
		o.DecidedBatch(b, took(began), err)
	}
	return err
}
