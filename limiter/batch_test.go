package limiter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// decisions notes the decisions that an observer gets.
type decisions struct {
	all  []stint.Decision
	took int
	err  error
}

func (d *decisions) Decided(v *Verdict, _ time.Duration, _ error) { d.all = append(d.all, v.Decision) }

func (d *decisions) DecidedBatch(b *Batch, took time.Duration, err error) {
	if d.err = err; err != nil {
		return
	}
	if took >= 0 {
		d.took++
	}
	for i := range b.Len() {
		d.all = append(d.all, *b.Decision(i))
	}
}

// The requests of a batch are decided and observed as those that come one by one.
func TestBatch(t *testing.T) {
	limits := []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Hour}),
		stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 3, Per: time.Hour}),
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Hour}),
	}
	var single, batched decisions
	open := func(o Observer) *Limiter {
		return New(memory.New(memory.Options{Clock: func() stint.Instant { return now }}), nil, Options{Observer: o})
	}
	one, many := open(&single), open(&batched)
	var b Batch
	var v Verdict
	for round := range 3 {
		b.Clear()
		var want []stint.Decision
		for i := range 100 {
			key, limit, cost := fmt.Sprint("key", i%7), limits[i%3], uint32(i%4)
			b.Add([]byte(key), limit, cost)
			if b.Key(i) != key || b.Len() != i+1 {
				t.Fatalf("request %d is for %s", i, b.Key(i))
			}
			req := Request{Descriptors: []Descriptor{{Cost: cost}}}
			if err := one.DecideInline(ctx, key, limit, &req, &v); err != nil {
				t.Fatal(err)
			}
			want = append(want, v.Decision)
		}
		if err := many.DecideBatch(ctx, &b); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if *b.Decision(i) != want[i] {
				t.Errorf("round %d, request %d: %+v, want %+v", round, i, *b.Decision(i), want[i])
			}
		}
	}
	if !slices.Equal(batched.all, single.all) {
		t.Errorf("observed: %+v, want %+v", batched.all, single.all)
	}
	if batched.took != 3 {
		t.Errorf("%d of 3 large batches were measured", batched.took)
	}

	if l := New(broken{}, nil, Options{Observer: &witness{}}); l.Batches() {
		t.Error("the observer takes no batches")
	}
	w := &decisions{}
	if err := New(broken{}, nil, Options{Observer: w}).DecideBatch(ctx, &b); err == nil || w.err == nil {
		t.Errorf("the store fails: %v, observed %v", err, w.err)
	}
}
