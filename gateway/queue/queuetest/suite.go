// Package queuetest is the test suite that every storage of the queue has to pass.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"stint/gateway/queue"
)

// Env is a storage and the clock that it uses.
type Env struct {
	Storage queue.Storage
	Now     func() time.Time
	Advance func(time.Duration)
}

// lease is how long the claims of the suite last.
const lease = 30 * time.Second

var wide = queue.Bounds{Places: 1000, Bytes: 1 << 30}

// Suite runs all tests. run calls a test with a new, empty storage.
func Suite(t *testing.T, run func(t *testing.T, test func(t *testing.T, e Env))) {
	for name, test := range map[string]func(*testing.T, Env){
		"Order": testOrder, "Bounds": testBounds, "Claims": testClaims, "Due": testDue, "Finish": testFinish, "Cancel": testCancel,
		"Retry": testRetry, "List": testList, "Stats": testStats, "Unknown": testUnknown, "Concurrent": testConcurrent, "Bytes": testBytes,
	} {
		t.Run(name, func(t *testing.T) { run(t, test) })
	}
}

// Entry returns a waiting entry that is due now.
func (v Env) Entry(line, rule string) *queue.Entry {
	id := queue.NewID()
	data := []byte("request " + id)
	return &queue.Entry{
		ID: id, Line: queue.LineOf(rule, line), Rule: rule, Who: "who " + id, State: queue.Waiting, At: v.Now(), Made: v.Now(),
		Keep: time.Hour, Size: len(data), Data: data,
	}
}

func (v Env) put(t *testing.T, line, rule string, place int) *queue.Entry {
	t.Helper()
	e := v.Entry(line, rule)
	got, err := v.Storage.Put(t.Context(), e, wide)
	if err != nil || got != place {
		t.Fatalf("put: place %d, %v; want %d", got, err, place)
	}
	return e
}

// claim claims a record, which must be want; nil for none.
func (v Env) claim(t *testing.T, worker string, want *queue.Entry) *queue.Entry {
	t.Helper()
	e, _, err := v.Storage.Claim(t.Context(), worker, lease)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case want == nil && e != nil:
		t.Fatalf("claimed %s, want none", e.ID)
	case want != nil && e == nil:
		t.Fatalf("claimed none, want %s", want.ID)
	case want != nil && e.ID != want.ID:
		t.Fatalf("claimed %s, want %s", e.ID, want.ID)
	}
	return e
}

func (v Env) set(t *testing.T, id string, state queue.State, at time.Time) {
	t.Helper()
	err := v.Storage.Change(t.Context(), id, func(e *queue.Entry) error {
		e.State, e.At = state, at
		if state == queue.Done {
			e.Answer = []byte("answer " + id)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("change to %q: %v", state, err)
	}
}

func (v Env) holds(t *testing.T, e *queue.Entry, want bool) {
	t.Helper()
	if got, err := v.Storage.Holds(t.Context(), e.Line); got != want || err != nil {
		t.Fatalf("the line holds records: %v, %v; want %v", got, err, want)
	}
}

// A line is sent in its order and one at a time; lines are independent.
func testOrder(t *testing.T, v Env) {
	a1, a2 := v.put(t, "a", "r", 1), v.put(t, "a", "r", 2)
	b1 := v.put(t, "b", "r", 1)
	v.holds(t, a1, true)
	got := v.claim(t, "w", a1)
	if string(got.Data) != string(a1.Data) || got.State != queue.Claimed || got.Claimer != "w" || got.Who != a1.Who || got.Rule != "r" || got.Keep != time.Hour {
		t.Errorf("claimed %+v", got)
	}
	v.claim(t, "w", b1)
	v.claim(t, "w", nil)
	v.set(t, a1.ID, queue.Done, v.Now().Add(time.Hour))
	v.claim(t, "w", a2)
	v.holds(t, a1, true)
	v.set(t, a2.ID, queue.Done, v.Now().Add(time.Hour))
	v.holds(t, a1, false)
	v.put(t, "a", "r", 1)
}

func testBounds(t *testing.T, v Env) {
	ctx := t.Context()
	for i := range 3 {
		if _, err := v.Storage.Put(ctx, v.Entry(fmt.Sprint(i), "r"), queue.Bounds{Places: 3, Bytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	refused := v.Entry("x", "r")
	if _, err := v.Storage.Put(ctx, refused, queue.Bounds{Places: 3, Bytes: 1 << 20}); !errors.Is(err, queue.ErrFull) {
		t.Errorf("the fourth of three places: %v", err)
	}
	if _, err := v.Storage.Get(ctx, refused.ID); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("the refused record: %v", err)
	}
	v.holds(t, refused, false)
	v.put(t, "x", "other", 1)
	e := v.Entry("y", "bytes")
	if _, err := v.Storage.Put(ctx, e, queue.Bounds{Places: 3, Bytes: 2*e.Bytes() - 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Storage.Put(ctx, v.Entry("y", "bytes"), queue.Bounds{Places: 3, Bytes: 2*e.Bytes() - 1}); !errors.Is(err, queue.ErrFull) {
		t.Errorf("too many bytes: %v", err)
	}
	v.set(t, e.ID, queue.Dead, time.Time{})
	if _, err := v.Storage.Put(ctx, v.Entry("y", "bytes"), queue.Bounds{Places: 1, Bytes: 1 << 20}); !errors.Is(err, queue.ErrFull) {
		t.Errorf("a dead record has no place: %v", err)
	}
	v.set(t, e.ID, queue.Removed, time.Time{})
	if _, err := v.Storage.Put(ctx, v.Entry("y", "bytes"), queue.Bounds{Places: 1, Bytes: e.Bytes()}); err != nil {
		t.Errorf("after the dead one was removed: %v", err)
	}
}

// A claim keeps others away until it runs out.
func testClaims(t *testing.T, v Env) {
	ctx := t.Context()
	a := v.put(t, "a", "r", 1)
	v.claim(t, "one", a)
	v.Advance(lease - time.Second)
	v.claim(t, "two", nil)
	if err := v.Storage.Renew(ctx, a.ID, "two", lease, true); !errors.Is(err, queue.ErrLost) {
		t.Errorf("renewed the claim of another: %v", err)
	}
	if err := v.Storage.Renew(ctx, a.ID, "one", lease, true); err != nil {
		t.Fatal(err)
	}
	v.Advance(lease - time.Second)
	v.claim(t, "two", nil)
	v.Advance(time.Second)
	got := v.claim(t, "two", a)
	if got.Tries != 1 || got.Claimer != "two" || got.Sending {
		t.Errorf("a claim that ran out while sending: %+v", got)
	}
	if err := v.Storage.Renew(ctx, a.ID, "one", lease, true); !errors.Is(err, queue.ErrLost) {
		t.Errorf("renewed a lost claim: %v", err)
	}
	v.Advance(lease)
	if got := v.claim(t, "one", a); got.Tries != 1 {
		t.Errorf("a claim that ran out before sending counted: %d tries", got.Tries)
	}
	v.set(t, a.ID, queue.Waiting, v.Now())
	v.claim(t, "two", a)
}

// Records wait for their time, and Claim says how long.
func testDue(t *testing.T, v Env) {
	ctx := t.Context()
	if e, next, err := v.Storage.Claim(ctx, "w", lease); e != nil || next >= 0 || err != nil {
		t.Errorf("an empty queue: %v, %v, %v", e, next, err)
	}
	a := v.Entry("a", "r")
	a.At = v.Now().Add(10 * time.Second)
	if _, err := v.Storage.Put(ctx, a, wide); err != nil {
		t.Fatal(err)
	}
	b := v.put(t, "a", "r", 2)
	if e, next, err := v.Storage.Claim(ctx, "w", lease); e != nil || next <= 9*time.Second || next > 10*time.Second || err != nil {
		t.Errorf("before its time: %v, %v, %v", e, next, err)
	}
	v.Advance(10 * time.Second)
	v.claim(t, "w", a)
	v.set(t, a.ID, queue.Waiting, v.Now().Add(5*time.Second))
	v.claim(t, "w", nil)
	v.Advance(5 * time.Second)
	v.claim(t, "w", a)
	v.set(t, a.ID, queue.Done, v.Now())
	v.claim(t, "w", b)
}

// A finished record has an answer and no request.
func testFinish(t *testing.T, v Env) {
	ctx := t.Context()
	a := v.put(t, "a", "r", 1)
	v.claim(t, "w", a)
	refused := errors.New("no")
	if err := v.Storage.Change(ctx, a.ID, func(e *queue.Entry) error {
		e.State = queue.Done
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("change: %v", err)
	}
	end := v.Now().Add(time.Hour)
	if err := v.Storage.Change(ctx, a.ID, func(e *queue.Entry) error {
		if e.State != queue.Claimed || e.Answer != nil {
			t.Errorf("change gets %+v", e)
		}
		e.State, e.At, e.Ended, e.Tries, e.Claimer, e.Reason, e.Answer = queue.Done, end, v.Now(), 3, "", "why", []byte("answer")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e, err := v.Storage.Get(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if e.State != queue.Done || e.Data != nil || string(e.Answer) != "answer" || e.Tries != 3 || e.Reason != "why" || e.Claimer != "" ||
		e.At.UnixMicro() != end.UnixMicro() || e.Ended.UnixMicro() != v.Now().UnixMicro() || e.Who != a.Who {
		t.Errorf("finished: %+v", e)
	}
	v.set(t, a.ID, queue.Gone, end)
	if e, err := v.Storage.Get(ctx, a.ID); err != nil || e.Answer != nil || e.State != queue.Gone {
		t.Errorf("gone: %+v, %v", e, err)
	}
	v.set(t, a.ID, queue.Removed, end)
	if _, err := v.Storage.Get(ctx, a.ID); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("removed: %v", err)
	}
	if stats, err := v.Storage.Stats(ctx); len(stats) != 0 || err != nil {
		t.Errorf("numbers of an empty queue: %v, %v", stats, err)
	}
}

// A record can leave its line anywhere.
func testCancel(t *testing.T, v Env) {
	a, b := v.put(t, "a", "r", 1), v.put(t, "a", "r", 2)
	c, d := v.put(t, "a", "r", 3), v.put(t, "a", "r", 4)
	v.set(t, b.ID, queue.Cancelled, v.Now())
	v.claim(t, "w", a)
	v.set(t, a.ID, queue.Done, v.Now())
	v.set(t, c.ID, queue.Cancelled, v.Now())
	v.claim(t, "w", d)
	v.set(t, d.ID, queue.Dead, v.Now())
	v.holds(t, a, false)
	v.claim(t, "w", nil)
	v.Advance(2 * lease)
	v.claim(t, "w", nil)
}

// A dead record keeps its request, blocks nobody, and can go to the end of its line again.
func testRetry(t *testing.T, v Env) {
	ctx := t.Context()
	a, b := v.put(t, "a", "r", 1), v.put(t, "a", "r", 2)
	v.claim(t, "w", a)
	v.set(t, a.ID, queue.Dead, v.Now())
	if e, err := v.Storage.Get(ctx, a.ID); err != nil || string(e.Data) != string(a.Data) {
		t.Errorf("dead: %+v, %v", e, err)
	}
	v.set(t, a.ID, queue.Waiting, v.Now())
	v.claim(t, "w", b)
	v.claim(t, "w", nil)
	v.set(t, b.ID, queue.Done, v.Now())
	if got := v.claim(t, "w", a); string(got.Data) != string(a.Data) {
		t.Errorf("retried: %+v", got)
	}
	if err := v.Storage.Change(ctx, b.ID, func(e *queue.Entry) error {
		e.State = queue.Waiting
		return nil
	}); err == nil {
		t.Error("a record without its request waits again")
	}
	if e, err := v.Storage.Get(ctx, b.ID); err != nil || e.State != queue.Done {
		t.Errorf("after that: %+v, %v", e, err)
	}
}

func testList(t *testing.T, v Env) {
	ctx := t.Context()
	var made []*queue.Entry
	for i := range 5 {
		made = append(made, v.put(t, fmt.Sprint(i), "r", 1))
		v.Advance(time.Second)
	}
	list := func(state queue.State, after *queue.Entry, limit int, want ...*queue.Entry) []*queue.Entry {
		t.Helper()
		got, err := v.Storage.List(ctx, state, after, limit)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d records, %v; want %d", state, len(got), err, len(want))
		}
		for i := range got {
			if got[i].ID != want[i].ID || got[i].Data != nil || got[i].Answer != nil {
				t.Errorf("%s: record %d is %+v, want %s", state, i, got[i], want[i].ID)
			}
		}
		return got
	}
	some := list(queue.Waiting, nil, 2, made[:2]...)
	list(queue.Waiting, some[1], 10, made[2:]...)
	v.claim(t, "w", made[0])
	list(queue.Claimed, nil, 10, made[0])
	list(queue.Waiting, nil, 10, made[1:]...)
	v.set(t, made[1].ID, queue.Dead, v.Now())
	list(queue.Dead, nil, 10, made[1])
	v.set(t, made[3].ID, queue.Cancelled, v.Now().Add(time.Hour))
	v.set(t, made[4].ID, queue.Cancelled, v.Now().Add(time.Minute))
	some = list(queue.Cancelled, nil, 1, made[4])
	list(queue.Cancelled, some[0], 9, made[3])
	list(queue.Gone, nil, 10)
}

func testStats(t *testing.T, v Env) {
	ctx := t.Context()
	a := v.put(t, "a", "one", 1)
	v.Advance(time.Second)
	b, c := v.put(t, "b", "one", 1), v.put(t, "b", "two", 1)
	check := func(rule string, waiting, dead, kept int, bytes int64, oldest time.Time) {
		t.Helper()
		stats, err := v.Storage.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s := stats[rule]
		if s.Waiting != waiting || s.Dead != dead || s.Kept != kept || s.Bytes != bytes || s.Oldest.UnixMicro() != oldest.UnixMicro() {
			t.Errorf("%s: %+v, want %d waiting, %d dead, %d kept, %d bytes, oldest %v", rule, s, waiting, dead, kept, bytes, oldest)
		}
	}
	check("one", 2, 0, 0, a.Bytes()+b.Bytes(), a.Made)
	check("two", 1, 0, 0, c.Bytes(), c.Made)
	v.claim(t, "w", a)
	check("one", 2, 0, 0, a.Bytes()+b.Bytes(), a.Made)
	v.set(t, a.ID, queue.Dead, v.Now())
	check("one", 1, 1, 0, a.Bytes()+b.Bytes(), b.Made)
	v.set(t, a.ID, queue.Removed, v.Now())
	v.set(t, b.ID, queue.Done, v.Now())
	check("one", 0, 0, 1, 0, time.Time{})
}

func testUnknown(t *testing.T, v Env) {
	ctx, id := t.Context(), queue.NewID()
	_, err := v.Storage.Get(ctx, id)
	for what, err := range map[string]error{
		"get": err, "change": v.Storage.Change(ctx, id, func(*queue.Entry) error { return nil }),
	} {
		if !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := v.Storage.Renew(ctx, id, "w", lease, false); err == nil {
		t.Error("renewed an unknown record")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := v.Storage.Put(ended, v.Entry("a", "r"), wide); err == nil {
		t.Error("put after the context ended")
	}
}

// Many workers at a time: each record is claimed once, and lines keep their order.
func testConcurrent(t *testing.T, v Env) {
	const lines, each, workers = 5, 8, 4
	ctx := t.Context()
	place := map[string]int{}
	line := map[string]string{}
	for n := range each {
		for l := range lines {
			e := v.put(t, fmt.Sprint(l), "r", n+1)
			place[e.ID], line[e.ID] = n, e.Line
		}
	}
	var (
		mu   sync.Mutex
		next = map[string]int{}
		done int
		wg   sync.WaitGroup
	)
	for w := range workers {
		wg.Go(func() {
			for range lines * each * workers * 10 {
				e, _, err := v.Storage.Claim(ctx, fmt.Sprint(w), lease)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all := done == lines*each
				if e != nil {
					if next[line[e.ID]] != place[e.ID] {
						t.Errorf("claimed number %d of its line, want %d", place[e.ID], next[line[e.ID]])
					}
					next[line[e.ID]]++
				}
				mu.Unlock()
				if all {
					return
				}
				if e == nil {
					continue
				}
				if err := v.Storage.Change(ctx, e.ID, func(e *queue.Entry) error {
					e.State, e.At = queue.Done, v.Now()
					return nil
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done != lines*each {
		t.Errorf("%d of %d done", done, lines*each)
	}
}

// Requests and answers are any bytes.
func testBytes(t *testing.T, v Env) {
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i)
	}
	e := v.Entry("a", "rule with spaces\n and \x00 bytes")
	e.Data, e.Size = data, len(data)
	if _, err := v.Storage.Put(t.Context(), e, wide); err != nil {
		t.Fatal(err)
	}
	if got := v.claim(t, "w", e); string(got.Data) != string(data) || got.Rule != e.Rule {
		t.Errorf("claimed %+v", got)
	}
	if stats, err := v.Storage.Stats(t.Context()); err != nil || stats[e.Rule].Bytes != e.Bytes() {
		t.Errorf("numbers %+v, %v", stats, err)
	}
}
