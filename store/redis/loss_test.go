package redis_test

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// What was used since the store lost its data stays used when a node borrows units of the key,
// whichever script has decided: of 80 units 60 were used long after the loss, so 20 are left.
func TestUsedSinceLoss(t *testing.T) {
	server := testkit.StartRedis(t)
	for _, test := range []struct {
		name  string
		limit stint.Spec
		after time.Duration // from the loss to the takes
		cost  uint32        // of the first take
		want  int64         // of the units left before a node borrows
	}{
		{"a bucket", stint.Spec{Algorithm: stint.TokenBucket, Requests: 80, Per: time.Minute, Burst: 80}, time.Hour, 60, 20},
		{"a window", stint.Spec{Requests: 80, Per: time.Minute}, time.Hour, 60, 20},
		{"a window from the first take", stint.Spec{Requests: 80, Per: time.Minute, FromFirst: true}, time.Hour, 60, 20},
		{"a calendar day", stint.Spec{Requests: 80, Calendar: stint.Day}, 75 * time.Hour, 60, 20},
		{"a bucket that is not whole", stint.Spec{Algorithm: stint.TokenBucket, Requests: 80, Per: time.Hour, Burst: 80}, 45 * time.Minute, 50, 10},
		{"a bucket with a debt", stint.Spec{Algorithm: stint.TokenBucket, Requests: 80, Per: time.Minute, Burst: 80}, time.Hour, 160, 0},
		{"a window with a debt", stint.Spec{Requests: 80, Per: time.Minute}, time.Hour, 160, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := openIn(t, server, "since")
			limit := stint.MustLimit(test.limit)
			at := noon
			ask := func(cost uint32, a stint.Loan) stint.Decision {
				take := stint.Take{Key: "a", Limit: limit, Cost: cost, Handling: &stint.Handling{Loan: &a}}
				return decideAt(t, s, at, take)[0]
			}
			ask(0, stint.Loan{})
			server.Do("FLUSHALL")
			if d := ask(1, stint.Loan{}); d.Allowed {
				t.Fatalf("after the loss %+v", d)
			}
			server.Do("DEL", "since:"+limit.Algorithm().String()+":a") // as if it had expired
			redis.AgeEpochForTest(s)
			at = at.Add(test.after)
			if test.cost > 80 {
				decideAt(t, s, at, stint.Take{Key: "a", Limit: limit, Cost: test.cost, Op: stint.Force})
			} else if d := ask(test.cost, stint.Loan{}); !d.Allowed {
				t.Fatalf("long after the loss %+v", d)
			}
			if d := ask(0, stint.Loan{Node: 7, Seq: 1}); d.Remaining != test.want {
				t.Errorf("%+v, want %d left", d, test.want)
			}
		})
	}
}

// A key whose state counts by another calendar than its limit counts as used up after a loss, too.
func TestLossUnderOtherCalendar(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "calendar")
	day, month := stint.MustLimit(stint.Spec{Requests: 80, Calendar: stint.Day}), stint.MustLimit(stint.Spec{Requests: 160, Calendar: stint.Month})
	ask := func(limit *stint.Limit) stint.Decision {
		return decideAt(t, s, noon, stint.Take{Key: "a", Limit: limit, Cost: 1, Handling: &stint.Handling{Loan: &stint.Loan{}}})[0]
	}
	ask(day)
	server.Do("SET", "calendar:epoch", strings.Replace(server.Do("GET", "calendar:epoch"), " 0 ", " 0 x", 1)) // as another server wrote it
	if d := ask(month); !d.Allowed || d.Remaining != 79 {
		t.Errorf("after the loss %+v, want a use of 80 to count", d)
	}
}
