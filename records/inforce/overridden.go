package inforce

import (
	"sync"
	"time"

	"stint"
	"stint/records"
	"stint/rule"
)

// readEvery is how long Overridden uses what it read of a file that has changed.
const readEvery = 10 * time.Second

// Overridden finds the limits that overrides give to rules, for questions that no single request asks. It reads all
// overrides of a file when the file has changed. It is safe for concurrent use.
type Overridden struct {
	records *Records

	mu       sync.Mutex // guards the fields below
	revision uint64
	read     time.Time                             // when; zero: never
	byRule   map[string]map[rule.Numbers]time.Time // when the last override with the numbers ends; zero: never
}

// NewOverridden returns the limits of the overrides among records.
func NewOverridden(r *Records) *Overridden { return &Overridden{records: r} }

// Until returns when no limit of a rule matters any more to a question about the past: of the times that ends
// returns for the rule's own limit, and for those that overrides in force give it, the last. An override that ends
// before that matters until its end.
func (o *Overridden) Until(r *rule.Rule, now time.Time, ends func(*stint.Limit) stint.Instant) stint.Instant {
	last := ends(r.Stored)
	for numbers, until := range o.numbers(r.Name, now) {
		if !until.IsZero() && !until.After(now) {
			continue
		}
		changed, err := r.With(numbers)
		if err != nil { // the numbers of the rule apply
			continue
		}
		end := ends(changed.Stored)
		if !until.IsZero() {
			end = min(end, stint.At(until))
		}
		last = max(last, end)
	}
	return last
}

// numbers returns the numbers that overrides give a rule. The caller must not change the map.
func (o *Overridden) numbers(name string, now time.Time) map[rule.Numbers]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	revision, err := o.records.file.Revision()
	if err == nil && (o.read.IsZero() || revision != o.revision && now.Sub(o.read).Abs() >= readEvery) {
		err = o.readLocked()
		o.revision, o.read = revision, now
	}
	if err != nil {
		o.records.failed(err)
	}
	return o.byRule[name]
}

// readLocked reads all overrides. What it read before an error counts.
func (o *Overridden) readLocked() error {
	o.byRule = map[string]map[rule.Numbers]time.Time{}
	for e, err := range o.records.file.All(records.Overrides) {
		if err != nil {
			return err
		}
		one, _ := e.Record.(records.Override)
		if one.Unlimited {
			continue
		}
		all := o.byRule[one.Rule]
		if all == nil {
			all = map[rule.Numbers]time.Time{}
			o.byRule[one.Rule] = all
		}
		numbers := numbersOf(&one)
		if before, known := all[numbers]; !known || !before.IsZero() && (one.Until.IsZero() || one.Until.After(before)) {
			all[numbers] = one.Until
		}
	}
	return nil
}

// numbersOf returns the numbers of an override.
func numbersOf(o *records.Override) rule.Numbers {
	return rule.Numbers{Requests: o.Requests, Per: o.Per, Burst: o.Burst, Unlimited: o.Unlimited}
}
