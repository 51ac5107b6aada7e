package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

var (
	hourly = stint.MustLimit(stint.Spec{Requests: 10, Per: 24 * time.Hour})
	steady = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: 24 * time.Hour})
	daily  = stint.MustLimit(stint.Spec{Requests: 10, Calendar: stint.Month})
)

// candidateOf returns a candidate of take number of of a call; below 0: one that depends on no other take.
func candidateOf(key stint.Key, limit *stint.Limit, of int) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: 4, Independent: true, Handling: &stint.Handling{Candidate: true, InsteadOf: uint32(of + 1)}}
}

// A candidate costs no other call of the server.
func TestCandidateInTheSameCall(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "tried")
	calls := func() (n int) {
		_, stats, _ := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_evalsha:calls=")
		_, _ = fmt.Sscanf(stats, "%d", &n)
		return n
	}
	for _, takes := range [][]stint.Take{
		{{Key: "a", Limit: hourly, Cost: 1}, candidateOf("b", steady, -1)},
		{{Key: "a", Limit: steady, Cost: 1}, candidateOf("b", steady, -1)},
		{{Key: "a", Limit: steady, Cost: 1}, {Key: "c", Limit: steady, Cost: 1}, candidateOf("d", steady, 0)},
		{{Key: "a", Limit: steady, Cost: 1}, {Key: "c", Limit: steady, Cost: 11}, candidateOf("d", hourly, 0)},
	} {
		decide(t, s, takes...) // loads the scripts
		before := calls()
		decide(t, s, takes...)
		if n := calls() - before; n != 1 {
			t.Errorf("%d takes need %d calls", len(takes), n)
		}
	}
}

// A candidate is decided rightly also if the server decides it a round trip later, because this node's clock
// did not know its calendar window.
func TestCandidateInAnotherRound(t *testing.T) {
	server := testkit.StartRedis(t)
	s, err := redis.Open(server.URL(), redis.Options{Namespace: "rounds", Clock: func() time.Time { return time.Now().AddDate(-1, 0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	full := stint.Take{Key: "full", Limit: hourly, Cost: 11}
	for i, step := range []struct {
		takes     []stint.Take
		remaining int64
		allowed   bool
	}{
		{[]stint.Take{{Key: "a", Limit: hourly, Cost: 1}, {Key: "b", Limit: steady, Cost: 1}, candidateOf("c", daily, 0)}, 6, true},
		{[]stint.Take{{Key: "a", Limit: hourly, Cost: 1}, full, candidateOf("c", daily, 0)}, 6, true},
		{[]stint.Take{full, {Key: "b", Limit: steady, Cost: 1}, candidateOf("c", daily, 0)}, 2, true},
		{[]stint.Take{{Key: "a", Limit: hourly, Cost: 1}, full, candidateOf("c", daily, 0)}, 2, false},
	} {
		if d := decide(t, s, step.takes...)[2]; d.Remaining != step.remaining || d.Allowed != step.allowed {
			t.Errorf("step %d: %+v, want %d remaining, allowed %v", i, d, step.remaining, step.allowed)
		}
	}
}

// Only the candidate is undecided if its state cannot be read, and it is not charged if that of another take
// cannot.
func TestCandidateThatCannotBeRead(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "unread")
	server.Do("SET", "unread:token_bucket:bad", "x")
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: hourly, Cost: 1}, {Key: "b", Limit: steady, Cost: 1}, candidateOf("bad", steady, 0)}}
	corrupt, ok := errors.AsType[*stint.CorruptState](s.Decide(t.Context(), &call))
	if !ok || !slices.Equal(corrupt.Takes, []int{2}) || call.Results[0].Remaining != 9 || call.Results[1].Remaining != 9 {
		t.Errorf("%+v: %+v", corrupt, call.Results)
	}
	call.Takes[1].Key, call.Takes[2].Key = "bad", "c"
	if corrupt, ok = errors.AsType[*stint.CorruptState](s.Decide(t.Context(), &call)); !ok || !slices.Equal(corrupt.Takes, []int{1}) || call.Results[2].Remaining != 10 {
		t.Errorf("%+v: %+v", corrupt, call.Results)
	}
}

// A candidate that the server cannot write fails alone.
func TestCandidateThatCannotBeWritten(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Do("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-rpush")
	s, err := redis.Open(strings.Replace(server.URL(), "redis://", "redis://few:secret@", 1), redis.Options{Namespace: "few"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	log := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour})
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: hourly, Cost: 1}, {Key: "b", Limit: steady, Cost: 1}, candidateOf("c", log, 0)}}
	corrupt, ok := errors.AsType[*stint.CorruptState](s.Decide(t.Context(), &call))
	if !ok || !slices.Equal(corrupt.Takes, []int{2}) || call.Results[0].Remaining != 9 || call.Results[1].Remaining != 9 {
		t.Errorf("%+v: %+v", corrupt, call.Results)
	}
}
