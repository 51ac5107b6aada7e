package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// fake is a store whose behaviour a test sets. It counts its calls.
type fake struct {
	do    atomic.Pointer[func(context.Context, *stint.Call) error]
	asked atomic.Int64
}

func (f *fake) Decide(ctx context.Context, call *stint.Call) error {
	f.asked.Add(1)
	return (*f.do.Load())(ctx, call)
}

func (f *fake) be(do func(context.Context, *stint.Call) error) { f.do.Store(&do) }

// well decides like a store in memory.
func well() func(context.Context, *stint.Call) error {
	return memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return stint.At(time.Now()) }}).Decide
}

// frozen never answers, and returns when its context ends.
func frozen(ctx context.Context, _ *stint.Call) error {
	<-ctx.Done()
	return errors.Join(stint.ErrUnknown, ctx.Err())
}

// errRefused is the error of a store that is down.
var errRefused = errors.New("connection refused")

func refused(context.Context, *stint.Call) error { return errRefused }

// slow decides after some time, or fails at the end of its context.
func slow(d time.Duration) func(context.Context, *stint.Call) error {
	answer := well()
	return func(ctx context.Context, call *stint.Call) error {
		select {
		case <-time.After(d):
			return answer(ctx, call)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bench is a guard, its store, and the changes that the guard reported.
type bench struct {
	*testing.T
	*Store
	fake *fake

	mu      sync.Mutex
	changes []bool
}

func newBench(t *testing.T, o Options) *bench {
	b := &bench{T: t, fake: &fake{}}
	b.fake.be(well())
	o.OnChange = func(s Status) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.changes = append(b.changes, s.Away)
	}
	if o.Local == nil {
		o.Local = memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return stint.At(time.Now()) }})
	}
	b.Store = New(b.fake, o)
	return b
}

// unhurried are options with which every machine is fast enough, and the breaker stays closed.
var unhurried = Options{Timeout: time.Hour, Pause: time.Hour}

// hour is a limit that no test reaches.
var hour = stint.MustLimit(stint.Spec{Requests: 1e9, Per: time.Hour})

// one takes one unit, and returns the decision and how long it took.
func (b *bench) one(ctx context.Context) (stint.Decision, time.Duration, error) {
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: hour, Cost: 1}}}
	began := time.Now()
	err := b.Decide(ctx, &call)
	took := time.Since(began)
	if err != nil {
		return stint.Decision{}, took, err
	}
	return call.Results[0], took, nil
}

// must takes one unit, which must be decided.
func (b *bench) must() (stint.Decision, time.Duration) {
	b.Helper()
	d, took, err := b.one(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d, took
}

// freeze freezes the store, and calls it until the breaker is open: that many calls must time out.
func (b *bench) freeze() {
	b.Helper()
	b.fake.be(frozen)
	b.exhaust()
}

// exhaust calls a store that does not answer until the breaker opens.
func (b *bench) exhaust() {
	b.Helper()
	for range lateFailures {
		if b.Status().Away { // after fewer calls if Options.Failures is smaller
			break
		}
		d, took := b.must()
		if !d.Degraded || !d.Allowed {
			b.Errorf("%+v", d)
		}
		b.deadline(took)
	}
	b.away(true)
}

// away checks whether the breaker is open.
func (b *bench) away(want bool) {
	b.Helper()
	if got := b.Status().Away; got != want {
		b.Fatalf("away is %v, want %v: %+v", got, want, b.Status())
	}
}

// deadline checks that a call ended at its timeout.
func (b *bench) deadline(took time.Duration) {
	b.Helper()
	if d := b.gate.timeout; took < d || took > d+d/checksPerTimeout {
		b.Errorf("cut off after %v, want %v and an eighth of it at most", took, d)
	}
}
