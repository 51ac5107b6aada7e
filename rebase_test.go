package stint_test

import (
	"testing"
	"time"

	"stint"
)

// What a key looks like to the one clock before, it looks like to the other after.
func TestMove(t *testing.T) {
	specs := map[string]stint.Spec{
		"bucket":  {Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 20},
		"step":    {Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 20, Step: true},
		"hold":    {Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 20, Reserve: true},
		"leaky":   {Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 20},
		"window":  {Requests: 20, Per: time.Second},
		"debt":    {Requests: 5, Per: time.Second, CarryDebt: true},
		"first":   {Requests: 20, Per: time.Second, FromFirst: true},
		"day":     {Requests: 20, Calendar: stint.Day},
		"log":     {Algorithm: stint.SlidingLog, Requests: 20, Per: time.Second},
		"sliding": {Algorithm: stint.SlidingWindow, Requests: 20, Per: time.Second, Blocks: 10},
	}
	begin := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, spec := range specs {
		for _, ahead := range []time.Duration{0, 3 * time.Second, -47 * time.Second, 5 * time.Hour} {
			limit := stint.MustLimit(spec)
			var st stint.State
			for i, cost := range []uint64{3, 1, 5} {
				limit.Force(&st, begin.Add(time.Duration(i)*100*time.Millisecond), cost)
			}
			now := begin.Add(300 * time.Millisecond)
			there := now.Add(ahead)
			want, used := limit.Test(&st, now, 0), limit.ForStores().Used(&st, now)
			limit.ForStores().Rebase(&st, now, there)
			got := limit.Test(&st, there, 0)
			if got.Remaining != want.Remaining || limit.ForStores().Used(&st, there) != used {
				t.Errorf("%s, %v ahead: %d remaining and %d used, was %d and %d",
					name, ahead, got.Remaining, limit.ForStores().Used(&st, there), want.Remaining, used)
			}
			if name != "day" && got.ResetAfter != want.ResetAfter {
				t.Errorf("%s, %v ahead: reset after %v, was %v", name, ahead, got.ResetAfter, want.ResetAfter)
			}
			fresh := limit.ForStores().Expiry(&st)
			if d := limit.Take(&st, fresh, uint64(limit.Capacity())); !d.Allowed {
				t.Errorf("%s, %v ahead: not untouched when it says so: %+v", name, ahead, d)
			}
		}
	}
}

// A debt that was partly paid off, because windows have passed, keeps its remaining part after a
// Rebase.
func TestMoveDebt(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Second, CarryDebt: true})
	begin := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for after, want := range []int64{18, 13, 8, 3, 0} {
		var st stint.State
		limit.Force(&st, begin, 18)
		now := begin.Add(time.Duration(after) * time.Second)
		limit.ForStores().Rebase(&st, now, now.Add(time.Millisecond))
		if got := limit.ForStores().Used(&st, now.Add(time.Millisecond)); got != want {
			t.Errorf("%d windows later %d are used, want %d", after, got, want)
		}
	}
}

func TestUsed(t *testing.T) {
	now := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, test := range []struct {
		spec stint.Spec
		want int64
	}{
		{stint.Spec{Requests: 20, Per: time.Second}, 30},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 20, Per: time.Second}, 30},
		{stint.Spec{Requests: 0, Per: time.Second}, 0},
		{stint.Spec{Algorithm: stint.Unlimited}, 0},
	} {
		limit := stint.MustLimit(test.spec)
		var st stint.State
		limit.Force(&st, now, 30)
		if got := limit.ForStores().Used(&st, now); got != test.want {
			t.Errorf("%+v: %d used after 30, want %d", test.spec, got, test.want)
		}
	}
}
