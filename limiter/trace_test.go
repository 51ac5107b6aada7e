package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/store/memory"
)

// notes is a tracer that writes down what it learns.
type notes struct{ lines []string }

type noteKey struct{}

// Begin implements Tracer.
func (n *notes) Begin(ctx context.Context) (context.Context, Trace) {
	if ctx.Value(noteKey{}) != nil {
		return ctx, nil
	}
	n.lines = append(n.lines, "begin")
	return context.WithValue(ctx, noteKey{}, n), n
}

// End implements Trace.
func (n *notes) End(v *Verdict, err error) {
	n.lines = append(n.lines, fmt.Sprintf("end %v %v", v.Allowed, err))
}

// noting is a store that writes down whether its calls are in a trace.
type noting struct {
	stint.Store
	fail error
}

// Decide implements stint.Store.
func (s noting) Decide(ctx context.Context, call *stint.Call) error {
	if n, ok := ctx.Value(noteKey{}).(*notes); ok {
		n.lines = append(n.lines, "store")
	}
	if s.fail != nil {
		return s.fail
	}
	return s.Store.Decide(ctx, call)
}

// A tracer learns of every decision and its result, and the calls to the store are in its context.
func TestTracer(t *testing.T) {
	n := new(notes)
	rules := table(t, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {per: 366d, requests: 1}\n")
	limit, err := stint.NewLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	l := New(noting{Store: store}, rules, Options{Tracer: n})
	req, v := describe(1, "user", "a"), new(Verdict)
	for range 2 {
		if err := l.Decide(ctx, req, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.DecideInline(ctx, "key", limit, req, v); err != nil {
		t.Fatal(err)
	}
	failing := New(noting{store, errors.New("away")}, rules, Options{Tracer: n})
	if err := failing.Decide(ctx, req, v); err == nil {
		t.Fatal("no error")
	}
	if err := l.Decide(context.WithValue(ctx, noteKey{}, new(notes)), req, v); err != nil { // not traced
		t.Fatal(err)
	}
	want := []string{"begin", "store", "end true <nil>", "begin", "store", "end false <nil>", "begin", "store", "end true <nil>", "begin", "store", "end "}
	for i, line := range n.lines {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Fatalf("%q, want %q", n.lines, want)
		}
	}
	if len(n.lines) != len(want) {
		t.Errorf("%q, want %q", n.lines, want)
	}
}

// A decision of a limiter without a tracer allocates nothing.
func TestNoTracerAllocatesNothing(t *testing.T) {
	l, req, v := untraced(t)
	if n := testing.AllocsPerRun(1000, func() { _ = l.Decide(ctx, req, v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func untraced(t testing.TB) (*Limiter, *Request, *Verdict) {
	rules := table(t, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {per: 1s, requests: 1000000000}\n")
	return New(memory.New(memory.Options{}), rules, Options{}), describe(1, "user", "a"), new(Verdict)
}

// BenchmarkNoTracer is a decision of a limiter without a tracer, to compare with the same of a release
// that has no tracers.
func BenchmarkNoTracer(b *testing.B) {
	l, req, v := untraced(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Decide(ctx, req, v); err != nil {
			b.Fatal(err)
		}
	}
}
