package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/transaction"
)

// several is a store of several servers, some of which a test freezes.
type several struct {
	*bench
	inner  func(context.Context, *stint.Call) error
	frozen []int
	silent bool // its errors do not name the failed servers
	after  bool // they fail after something was charged on others
}

// serverOf returns the server of a key, by its first letter.
func serverOf(t *stint.Take) int {
	if t.Limit == nil || t.Limit.Algorithm() == stint.Unlimited {
		return -1
	}
	return int(t.Key[0] - 'a')
}

func newSeveral(t *testing.T) *several {
	s := &several{bench: newBench(t, Options{Server: serverOf}), inner: well()}
	s.fake.be(s.decide)
	return s
}

// decide answers unless a server of the call is frozen.
func (s *several) decide(ctx context.Context, call *stint.Call) error {
	var bad []int
	for i := range call.Takes {
		if at := serverOf(&call.Takes[i]); slices.Contains(s.frozen, at) {
			bad = append(bad, at)
		}
	}
	if len(bad) == 0 {
		return s.inner(ctx, call)
	}
	err := frozen(ctx, call)
	if !s.silent {
		err = &transaction.ServerError{Servers: bad, RestUncharged: !s.after, Err: err}
	}
	return err
}

// takes returns takes of one unit of these keys. The policy is Deny if the key ends with a minus.
func takes(keys ...stint.Key) (all []stint.Take) {
	for _, key := range keys {
		t := stint.Take{Key: key, Limit: hour, Cost: 1}
		if key[len(key)-1] == '-' {
			t.Handling = &stint.Handling{OnFailure: stint.Deny}
		}
		all = append(all, t)
	}
	return all
}

// ask decides a call, and returns for each take whether it passed: "yes" or "no" by the store,
// "yes?" or "no?" by its policy.
func (s *several) ask(takes ...stint.Take) (answers []string) {
	s.Helper()
	call := stint.Call{Takes: takes}
	if err := s.Decide(s.Context(), &call); err != nil {
		s.Fatal(err)
	}
	for _, d := range call.Results {
		text := map[bool]string{true: "yes", false: "no"}[d.Allowed]
		if d.Degraded {
			text += "?"
		}
		answers = append(answers, text)
	}
	return answers
}

// expect checks the answers, and whether the call waited for the timeout.
func (s *several) expect(waits bool, want string, takes ...stint.Take) {
	s.Helper()
	began := time.Now()
	if got := fmt.Sprint(s.ask(takes...)); got != want {
		s.Errorf("%s, want %s", got, want)
	}
	if took := time.Since(began); (took > 0) != waits {
		s.Errorf("took %v, and waiting is %v", took, waits)
	}
}

// used returns how many units of a key are used.
func (s *several) used(key stint.Key) int64 {
	s.Helper()
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: hour}}}
	if err := s.inner(s.Context(), &call); err != nil {
		s.Fatal(err)
	}
	return hour.Capacity() - call.Results[0].Remaining
}

// TestServers: a frozen server opens its own breaker. Then its keys follow their policies at once
// and the store decides all others, also in calls of both.
func TestServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		s.expect(false, "[yes yes]", takes("a", "b")...)
		s.frozen = []int{1}
		for range lateFailures {
			s.expect(true, "[yes?]", takes("b")...)
			s.expect(false, "[yes]", takes("a")...) // does not count for the other one
		}
		if all := s.Servers(); len(all) != 2 || all[0].Away || !all[1].Away || all[1].Server != 1 || !s.Status().Away || s.Status().Server != 1 {
			t.Fatalf("%+v", all)
		}
		s.expect(false, "[yes?]", takes("b")...)
		s.expect(false, "[no?]", takes("b-")...)
		s.expect(false, "[yes]", takes("a")...)
		s.expect(false, "[yes yes?]", takes("a", "b")...)
		s.expect(false, "[yes yes? yes]", takes("a", "b", "c")...)
		before := s.used("a")
		s.expect(false, "[yes no? yes?]", takes("a", "b-", "b")...)
		if n := s.used("a"); n != before {
			t.Errorf("a denied call took %d units", n-before)
		}
		alone := takes("a", "b-")
		alone[0].Independent, alone[1].Independent = true, true
		s.expect(false, "[yes no?]", alone...)
		s.expect(false, "[yes yes?]", stint.Take{Key: "a", Limit: hour, Cost: 1, Borrows: 1}, takes("b")[0])

		reset := stint.Call{Takes: []stint.Take{{Key: "a", Limit: hour, Op: stint.Reset}, {Key: "b", Limit: hour, Op: stint.Reset}}}
		if err := s.Decide(t.Context(), &reset); !errors.Is(err, ErrAway) || s.used("a") == 0 {
			t.Errorf("%v, %d used: nothing may be reset where not all can be", err, s.used("a"))
		}

		s.frozen = nil
		pass(2 * DefaultPause)
		s.expect(false, "[yes yes]", takes("a", "b")...)
		if s.Status().Away || fmt.Sprint(s.changes) != "[true false]" {
			t.Errorf("%+v, changes %v", s.Status(), s.changes)
		}
	})
}

// pass lets time pass, in a bubble of synctest.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's time is not real
}

// TestServersAcross: if all calls use both servers, only the breaker of the frozen one opens; the
// guard uses the servers in the store's error.
func TestServersAcross(t *testing.T) {
	for _, test := range []struct {
		name          string
		silent, after bool
		first         string // the answers while the breaker is closed
		other         bool   // the breaker of the other server opens too
	}{
		{"it says which", false, false, "[yes yes?]", false},
		{"it charged the other", false, true, "[yes? yes?]", false},
		{"it does not say", true, false, "[yes? yes?]", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeveral(t)
				s.frozen, s.silent, s.after = []int{1}, test.silent, test.after
				for range lateFailures {
					s.expect(true, test.first, takes("a", "b")...)
				}
				all := s.Servers()
				if !all[1].Away || all[0].Away != test.other {
					t.Fatalf("%+v", all)
				}
				if !test.other {
					s.expect(false, "[yes yes?]", takes("a", "b")...)
				}
				s.frozen = nil
				for s.Status().Away {
					pass(DefaultPause)
					s.ask(takes("a", "b")...)
				}
				s.expect(false, "[yes yes]", takes("a", "b")...)
			})
		})
	}
}
