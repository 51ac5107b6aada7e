package gossip

import (
	"testing"
	"time"

	"stint"
)

// Units that another node took at the end of a window, and reports after it, do not count in the next
// one.
func TestEndOfWindow(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Requests: 100, Per: 2 * time.Second})
	f := newNodes(t, 2)
	f.meet(0, 1)
	f.run(20)
	f.take(1, l, 1)
	f.now = f.now.Add(DefaultInterval / 2)
	f.run(20 - int(f.now/100_000)%20 - 1) // to the last half interval of a window
	f.take(0, l, 30)
	f.now = f.now.Add(DefaultInterval)
	f.take(0, l, 5) // in the next one
	f.run(1)
	if left := f.take(1, l, 0).Remaining; left != 95 {
		t.Errorf("%d of 100 are left after 5 were taken", left)
	}
}

// Parts of a fleet that were apart count together what each took, whatever happened to the key
// meanwhile.
func TestMeetAgain(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 24 * time.Hour, Burst: 1000})
	larger := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: 24 * time.Hour, Burst: 3000})
	log := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 1000, Per: 24 * time.Hour})
	reset := func(f *nodesOf, at int, l *stint.Limit) {
		call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: l, Op: stint.Reset}}}
		if err := f.list[at].Decide(&call, f.now); err != nil {
			f.Fatal(err)
		}
	}
	for _, test := range []struct {
		name        string
		before, now *stint.Limit
		apart       func(f *nodesOf)
		used        int64
	}{
		{"both took", bucket, bucket, func(f *nodesOf) { f.take(0, bucket, 20); f.take(1, bucket, 30) }, 160},
		{"both took, of a log", log, log, func(f *nodesOf) { f.take(0, log, 20); f.take(1, log, 30) }, 160},
		{"one reset the key", bucket, bucket, func(f *nodesOf) { reset(f, 0, bucket); f.take(0, bucket, 20); f.run(9); f.take(0, bucket, 5) }, 25},
		{"one has a new limit", bucket, larger, func(f *nodesOf) { f.take(1, bucket, 30); f.take(0, larger, 20); f.run(9); f.take(0, larger, 5) }, 165},
	} {
		f := newNodes(t, 2)
		f.meet(0, 1)
		f.run(20)
		f.take(0, test.before, 50)
		f.take(1, test.before, 60)
		f.run(200)
		f.cut = true
		test.apart(f)
		f.run(30)
		f.cut = false
		f.run(30)
		for at := range f.list {
			if d := f.take(at, test.now, 0); d.Limit-d.Remaining < test.used-1 || d.Limit-d.Remaining > test.used+1 {
				t.Errorf("%s: node %d counts %d as used, %d were", test.name, at, d.Limit-d.Remaining, test.used)
			}
			e := f.list[at].shardOf(test.now.Algorithm(), "k").keys[name{"k", test.now.Algorithm()}]
			if e.kind == other && (e.nextAt != 0 || len(e.own.marks)+len(e.counters[0].marks) > 0) {
				t.Errorf("%s: node %d keeps periods that nobody needs", test.name, at)
			}
		}
	}
}
