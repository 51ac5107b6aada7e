package limitjson

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"stint"
)

// lender is a store that returns fixed loans or an error.
type lender struct {
	epoch stint.Instant
	lent  []stint.Lent
	err   error
}

// Lending implements LeaseStore.
func (l *lender) Lending(context.Context, *stint.Take, stint.Instant) (stint.Instant, []stint.Lent, error) {
	return l.epoch, l.lent, l.err
}

func TestLeases(t *testing.T) {
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	part := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 10})
	for _, test := range []struct {
		name  string
		store lender
		here  LocalLease
		want  string
	}{
		{"nothing", lender{}, LocalLease{Node: 255}, `{"lent":0,"nodes":[],"here":{"node":"ff","units":0}}`},
		{
			"two nodes and a lost epoch",
			lender{epoch: now - 5_000_000, lent: []stint.Lent{
				{Units: 20, At: now - 2_000_000}, {Node: 16, Units: 7, At: now - 61_000}, {Node: 255, Units: 5, At: now + 1_000},
			}},
			LocalLease{Node: 255, Units: 3, Share: part, ShareRemaining: 4},
			`{"epoch_ms":1772366395000,"lent":32,"nodes":[{"node":"lost","units":20,"age_ms":2000,"here":false},` +
				`{"node":"10","units":7,"age_ms":61,"here":false},{"node":"ff","units":5,"age_ms":0,"here":true}],` +
				`"here":{"node":"ff","units":3},"own":{"limit":10,"remaining":4}}`,
		},
		{
			"the store is away",
			lender{err: errors.New("redis: no answer")},
			LocalLease{Node: 1, Units: 9},
			`{"lent":0,"nodes":[],"here":{"node":"1","units":9},"store_error":"redis: no answer"}`,
		},
		{
			"the server lost counts",
			lender{epoch: now - 5_000_000},
			LocalLease{Node: 1, Losses: []LeaseLoss{{AtMS: 1772366395000, UsedUp: 3, Units: 8}, {AtMS: 1772366396000, Kept: 2}}},
			`{"epoch_ms":1772366395000,"lent":0,"nodes":[],"here":{"node":"1","units":0},"losses":[` +
				`{"at_ms":1772366395000,"used_up":3,"kept":0,"units":8},{"at_ms":1772366396000,"used_up":0,"kept":2,"units":0}]}`,
		},
	} {
		got, err := json.Marshal(LeasesOf(t.Context(), &test.store, &stint.Take{Limit: part}, now, test.here))
		if err != nil || string(got) != test.want {
			t.Errorf("%s:\n got %s (%v)\nwant %s", test.name, got, err, test.want)
		}
	}
}
