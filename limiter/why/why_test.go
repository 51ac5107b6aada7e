package why

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

// step is one request of a history.
type step struct{ req *limiter.Request }

// history is a rule file and requests under it. It can be repeated.
type history struct {
	text  string
	steps []step
}

func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 12))
	h := &history{text: randomRules(r)}
	at := now
	for range 1 + r.IntN(25) {
		at = at.Add(time.Duration(r.IntN(500)) * time.Millisecond)
		h.steps = append(h.steps, step{randomRequest(r, at, false)})
	}
	return h
}

// run decides all requests but the last on a new store.
func (h *history) run(t *testing.T) (*limiter.Limiter, *rule.Table) {
	t.Helper()
	table := table(t, h.text)
	l := limiter.New(memory.New(memory.Options{Budget: 1 << 20}), table, limiter.Options{})
	for _, s := range h.steps[:len(h.steps)-1] {
		h.decide(t, l, s.req)
	}
	return l, table
}

func (h *history) last() *limiter.Request { return h.steps[len(h.steps)-1].req }

func (h *history) decide(t *testing.T, l *limiter.Limiter, req *limiter.Request) bool {
	t.Helper()
	var v limiter.Verdict
	if err := l.Decide(context.Background(), req, &v); err != nil {
		t.Fatalf("%v\n%s", err, h.text)
	}
	return v.Allowed
}

// apply makes a change of the table, with a number that is off by less than the one that is enough.
func apply(t *testing.T, table *rule.Table, c Change, name string, less uint64) bool {
	t.Helper()
	for _, r := range table.Rules() {
		if r.Name != name {
			continue
		}
		spec := r.Limit.Spec()
		switch c.Kind {
		case Requests, Burst:
			n := c.Numbers
			if n.Requests > 0 {
				n.Requests -= uint32(less)
			}
			if n.Burst > 0 {
				n.Burst -= uint32(less)
			}
			if n.Requests+n.Burst == 0 || c.To-less == c.From {
				return false // this is the limit as it is
			}
			made, err := r.With(n)
			if err != nil {
				t.Fatal(err)
			}
			made.Base = nil
			*r = *made
			return true
		case MaxWait:
			spec.MaxWait = c.After - time.Duration(less)*time.Microsecond
		case MinInterval:
			if spec.MinInterval = c.After + time.Duration(less)*time.Microsecond; spec.MinInterval == c.Before {
				return false
			}
		}
		r.Limit = stint.MustLimit(spec)
		r.Stored = r.Limit
		return true
	}
	t.Fatalf("no rule %s", name)
	return false
}

// TestSmallestChange explains the last request of random histories, and repeats each history with what the
// explanation says: after the wait, or with the changes, the request passes. With one unit less than a
// change says it does not.
func TestSmallestChange(t *testing.T) {
	kinds := map[Kind]int{}
	for seed := range uint64(800) {
		h := newHistory(seed)
		l, _ := h.run(t)
		e, err := Explain(context.Background(), l, h.last())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, h.text)
		}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d: "+format+"\nrequest %+v\nexplanation: wait %v, smallest %+v, limits %+v\n%s",
				append(append([]any{seed}, args...), h.last().Descriptors, e.Wait, e.Smallest, e.Limits, h.text)...)
		}
		if e.Passes() {
			if len(e.Smallest) > 0 || e.Wait != 0 || !h.decide(t, l, h.last()) {
				fail("it passes, and needs a change")
			}
			continue
		}
		// The wait of a first request that opens a used-up window counts from that request, which was not made.
		if l, _ := h.run(t); e.Wait != stint.Never && !strings.Contains(h.text, "used_up") {
			later := *h.last()
			later.At = later.At.Add(e.Wait)
			if !h.decide(t, l, &later) {
				fail("it does not pass after the wait")
			}
			kinds[Wait]++
		}
		if len(e.Smallest) == 0 {
			fail("it does not pass, and no change helps")
		}
		for off := range e.Smallest {
			kinds[e.Smallest[off].Kind]++
		}
		for off := -1; off < len(e.Smallest); off++ { // -1: the changes as they are; else one of them is too small
			l, table := h.run(t)
			same := true
			for i, c := range e.Smallest {
				less := uint64(0)
				if i == off {
					less = 1
				}
				same = apply(t, table, c, e.Asked[c.Limit].Rule.Name, less) && same
			}
			if off >= 0 && !same {
				continue
			}
			if h.decide(t, l, h.last()) != (off < 0) {
				fail("with the changes, number %d too small, it passes: %v", off, off >= 0)
			}
		}
	}
	for _, k := range []Kind{Wait, Requests, Burst, MaxWait, MinInterval} {
		if kinds[k] == 0 {
			t.Errorf("no history needed the change %s", k)
		}
	}
}
