package redis_test

import (
	"fmt"
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

// A take that is denied by what the server still has is decided by one script, whether the server lost
// anything or not. The next one that would pass notices the loss.
func TestDeniedAfterLoss(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "denied")
	ask := func(cost uint32) (d stint.Decision, a stint.Loan) {
		testkit.Until(t, "the server answers", func() bool {
			a = stint.Loan{}
			call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: lent, Cost: cost, Handling: &stint.Handling{Loan: &a}}}}
			if s.Decide(t.Context(), &call) != nil {
				return false
			}
			d = call.Results[0]
			return true
		})
		return d, a
	}
	_, first := ask(80)
	ask(1) // the server loads one.lua
	const key = "denied:token_bucket:a"
	was, epoch := server.Do("GET", key), server.Do("GET", "denied:epoch")
	server.Restart()
	server.Do("SET", key, was, "PX", "900000")
	server.Do("SET", "denied:epoch", epoch)
	if d, a := ask(1); d.Allowed || d.RetryAfter > 10*time.Second || a.Began != first.Began || server.Do("GET", key) != was {
		t.Errorf("a denied take gets %+v %+v and leaves %q, was %q", d, a, server.Do("GET", key), was)
	}
	server.Do("SET", key, "1b 1 10000000 80|1", "PX", "900000") // as if the last writes were lost
	if d, a := ask(1); d.Allowed || a.Began == first.Began {
		t.Errorf("a take that would pass gets %+v %+v", d, a)
	}
}

// Takes of a key that had a value a moment ago are sent without the key of the process. If the value is
// gone, the next take notices that the server was emptied; if only that key was deleted, it begins unused.
func TestValueGone(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "gone")
	ask := func(key stint.Key) (stint.Decision, stint.Loan) {
		a := stint.Loan{}
		return decide(t, s, stint.Take{Key: key, Limit: lent, Cost: 60, Handling: &stint.Handling{Loan: &a}})[0], a
	}
	_, first := ask("a")
	ask("b")
	server.Do("DEL", "gone:token_bucket:b")
	if d, a := ask("b"); !d.Allowed || d.Remaining != 20 || a.Began != first.Began {
		t.Errorf("a key that was deleted: %+v %+v", d, a)
	}
	server.Do("FLUSHALL")
	if d, a := ask("b"); d.Allowed || a.Began == first.Began {
		t.Errorf("the server was emptied: %+v %+v", d, a)
	}
}

// Takes that are decided together notice a loss as single ones do: that the server was emptied, and that another
// process has all that it had.
func TestLossOfSeveral(t *testing.T) {
	server := testkit.StartRedis(t)
	for _, independent := range []bool{false, true} {
		for _, emptied := range []bool{false, true} {
			name := fmt.Sprintf("independent-%v-emptied-%v", independent, emptied)
			s := openIn(t, server, name)
			ask := func() (d []stint.Decision, began stint.Instant, err error) {
				var one, two stint.Loan
				call := stint.Call{Takes: []stint.Take{
					{Key: "a", Limit: lent, Cost: 1, Independent: independent, Handling: &stint.Handling{Loan: &one}},
					{Key: "b", Limit: lent, Cost: 1, Independent: independent, Handling: &stint.Handling{Loan: &two}},
				}}
				err = s.Decide(t.Context(), &call)
				return call.Results, one.Began, err
			}
			_, first, err := ask()
			testkit.Must(t, err)
			for range 2 { // the second time the keys had values a moment ago
				d, began, err := ask()
				testkit.Must(t, err)
				if !d[0].Allowed || !d[1].Allowed || began != first {
					t.Errorf("%s: before the loss %+v", name, d)
				}
			}
			kept := map[string]string{}
			for _, key := range []string{"epoch", "process", "token_bucket:a", "token_bucket:b"} {
				kept[key] = server.Do("GET", name+":"+key)
			}
			if emptied {
				server.Do("FLUSHALL")
				delete(kept, "epoch")
				delete(kept, "process")
			} else {
				server.Restart()
			}
			for key, value := range kept {
				server.Do("SET", name+":"+key, value, "PX", "900000")
			}
			var d []stint.Decision
			var began stint.Instant
			testkit.Until(t, "the server answers", func() bool { d, began, err = ask(); return err == nil })
			if d[0].Allowed || d[1].Allowed || began == first {
				t.Errorf("%s: after the loss %+v", name, d)
			}
		}
	}
}

// A take of a key that had a value a moment ago is sent without the key of the process: a client that may not use
// that one gets a decision.
func TestProcessIsNotSent(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "sent")
	ask := func() error {
		return s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "a", Limit: lent, Cost: 1, Handling: &stint.Handling{Loan: new(stint.Loan)}}}})
	}
	for range 3 { // the first one learns the epoch, the second one that the key has a value
		testkit.Must(t, ask())
	}
	server.Do("ACL", "SETUSER", "default", "resetkeys", "~sent:token_bucket:*")
	if err := ask(); err != nil {
		t.Error(err)
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
