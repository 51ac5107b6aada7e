package lease_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/testkit"
)

// TestReportedThenDenied: a node charges units for a call and reports them as spent. The answer to the report is lost,
// and then the store denies the call. The store has refilled the reported units, so the node must not spend them again.
func TestReportedThenDenied(t *testing.T) {
	const burst, charged, kept = 1000, 50, 5
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: burst, Per: time.Second, Burst: burst})
	synctest.Test(t, func(t *testing.T) {
		f, cut := start(t, 1), errors.New("cut off")
		node, one := f.Nodes[0], take("a", limit, 1)
		var cuts atomic.Bool
		f.Store.Seen = func(call *stint.Call) {
			switch key := call.Takes[0].Key; {
			case !cuts.Load():
			case key == "a": // the report
				f.Store.Lose.Store(&cut)
			case key == "b": // the call, after the report
				pass(time.Millisecond / 2) // never at once with the report
				for i := 0; f.Store.Lose.Load() == nil && i < 100; i++ {
					pass(time.Millisecond)
				}
				f.Store.Lose.Store(nil)
			}
		}
		f.Decide(t, 0, take("b", thousand, 1000))
		for i := 0; node.Held(&one) < charged+kept && i < 1000; i++ {
			pass(time.Millisecond)
			f.Decide(t, 0, one)
		}
		f.Decide(t, 0, take("a", limit, uint32(node.Held(&one)-charged-kept)))
		testkit.Decide(t, f.Store.Store, atMost("a", limit, burst)) // so that the report brings no units

		cuts.Store(true)
		reported := f.Store.Calls.Load()
		if d := f.Decide(t, 0, take("a", limit, charged), take("b", thousand, 1)); d[1].Allowed || f.Store.Calls.Load() != reported+2 {
			t.Fatalf("%+v after %d calls, want it denied after a report", d, f.Store.Calls.Load()-reported)
		}
		f.Store.Fail.Store(&cut)
		pass(1500 * time.Millisecond) // the bucket is full again, and the lease is not over
		var passed int64
		for ; passed <= burst; passed++ {
			call := stint.Call{Takes: []stint.Take{one}}
			if err := node.Decide(t.Context(), &call); err != nil || !call.Results[0].Allowed {
				break
			}
		}
		stored := testkit.Decide(t, f.Store.Store, atMost("a", limit, burst))[0].Charged
		if passed < kept || passed+int64(stored) > burst {
			t.Errorf("%d passed on the node, which kept %d, and %d at the store, of %d", passed, kept, stored, burst)
		}
	})
}
