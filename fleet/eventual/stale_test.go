package eventual_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

func TestStaleTime(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	open := func(clock *testkit.StaleClock) stint.Store {
		return eventual.New(memory.New(memory.Options{Clock: clock.Read}), eventual.Options{Clock: clock.Read})
	}
	testkit.StaleTime(t, open, take("a", bucket, 1))
	testkit.StaleTime(t, open, take("a", bucket, 1), take("b", bucket, 1))
}

// If a goroutine read the clock before other takes, and then applies the store's answer, nothing of
// those takes is given back.
func TestStaleAnswer(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	node, store := eventual.NewNode(eventual.Options{}), memory.New(memory.Options{Clock: func() stint.Instant { return now }})
	ask := func(req *eventual.Request) {
		t.Helper()
		if err := store.Decide(t.Context(), req.Call); err != nil {
			t.Fatal(err)
		}
	}
	passes := func(cost uint32) bool {
		call := stint.Call{Takes: []stint.Take{take("a", bucket, cost)}}
		if req, _ := node.Begin(&call, now, true); req != nil {
			ask(req)
			if _, err := node.End(req, now, nil); err != nil {
				t.Fatal(err)
			}
		}
		return call.Results[0].Allowed
	}
	passes(1)
	now = now.Add(2 * time.Second)
	passes(1)
	reqs, read := node.Tick(now), now
	for _, req := range reqs {
		ask(req)
	}
	now = now.Add(time.Millisecond)
	passes(1)
	now = now.Add(13 * time.Millisecond)
	if !passes(1000) {
		t.Fatal("it has not filled")
	}
	for _, req := range reqs {
		if _, err := node.End(req, read, nil); err != nil {
			t.Fatal(err)
		}
	}
	if passes(1) {
		t.Error("something came back")
	}
}
