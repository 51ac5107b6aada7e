package memcached_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
)

// A take that the item would deny, as this node wrote it last, is not denied if another node has reset
// the key since then; and one that it would allow is not allowed if another node has used the key up.
func TestKnownItem(t *testing.T) {
	server := testkit.StartMemcached(t)
	nodes := fleet(t, server, 2)
	for _, test := range []struct {
		before, between stint.Take
		want            bool
	}{
		{stint.Take{Cost: 5}, stint.Take{Op: stint.Reset}, true},
		{stint.Take{Cost: 1}, stint.Take{Cost: 4}, false},
		{stint.Take{Cost: 1}, stint.Take{Cost: 3}, true},
	} {
		do := func(s *memcached.Store, take stint.Take) {
			take.Key, take.Limit = "k", bucket
			_, err := decide(t, s, 10*time.Second, take)
			testkit.Must(t, err)
		}
		do(nodes[0], stint.Take{Op: stint.Reset})
		do(nodes[0], test.before)
		d, err := nodes[0].DecideOnKnownForTest(t.Context(), &stint.Take{Key: "k", Limit: bucket, Cost: 1}, func() { do(nodes[1], test.between) })
		if err != nil || d.Allowed != test.want {
			t.Errorf("%+v: %+v, %v", test, d, err)
		}
	}
}

// A caller that stops waiting before its take is written is not charged, whatever becomes of those that
// are decided with it.
func TestStopsWaitingInGroup(t *testing.T) {
	server := testkit.StartMemcached(t)
	s := open(t, server)
	take := stint.Take{Key: "k", Limit: bucket, Cost: 1}
	_, err := decide(t, s, 10*time.Second, take)
	testkit.Must(t, err)
	server.Freeze()
	ask := func(ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- s.Decide(ctx, &stint.Call{Takes: []stint.Take{take}}) }()
		return answer
	}
	short, cancelShort := context.WithTimeout(t.Context(), time.Second)
	defer cancelShort()
	first := ask(short)
	testkit.Until(t, "the first is being decided", func() bool { return s.WaitingForTest("k", bucket) == 0 })
	leaves, leave := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer leave()
	second, third := ask(leaves), ask(context.Background())
	testkit.Until(t, "the others are the next group", func() bool { return s.WaitingForTest("k", bucket) == 2 })
	testkit.Until(t, "which is being read", func() bool { return s.WaitingForTest("k", bucket) == 0 })
	leave()
	for i, answer := range []<-chan error{first, second} {
		if err := <-answer; err == nil || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	server.Thaw()
	if err := <-third; err != nil {
		t.Errorf("the caller that waits: %v", err)
	}
	if d, err := decide(t, s, 10*time.Second, stint.Take{Key: "k", Limit: bucket}); err != nil || d[0].Remaining != 3 {
		t.Errorf("%+v, %v, want 3 remaining", d, err)
	}
}

// What a denied call does to its keys charges nothing that fits meanwhile.
func TestDeniedFitsMeanwhile(t *testing.T) {
	s := open(t, testkit.StartMemcached(t))
	for _, limit := range []*stint.Limit{window, bucket} {
		for range 3 {
			d, err := s.DenyForTest(t.Context(), &stint.Take{Key: "k", Limit: limit, Cost: 1})
			if err != nil || d.Remaining != 5 {
				t.Fatalf("%v: %+v, %v", limit.Algorithm(), d, err)
			}
		}
	}
}
