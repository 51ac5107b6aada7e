package limiter

import (
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// decisions notes the decisions that an observer gets.
type decisions struct {
	all   []stint.Decision
	asked []Asked
	took  int
	err   error
}

func (d *decisions) Decided(v *Verdict, took time.Duration, err error) {
	if err != nil {
		d.err = err
		return
	}
	if took >= 0 {
		d.took++
	}
	d.all, d.asked = append(d.all, v.Decision), append(d.asked, v.Asked...)
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
	for i := range single.all {
		if batched.all[i] != single.all[i] || batched.asked[i] != single.asked[i] {
			t.Errorf("observed as number %d: %+v, want %+v", i, batched.asked[i], single.asked[i])
		}
	}
	if len(batched.all) != 300 || batched.took == 0 || batched.took > 3 {
		t.Errorf("%d were observed, %d measured", len(batched.all), batched.took)
	}

	w := &decisions{}
	if err := New(broken{}, nil, Options{Observer: w}).DecideBatch(ctx, &b); err == nil || w.err == nil {
		t.Errorf("the store fails: %v, observed %v", err, w.err)
	}
}
