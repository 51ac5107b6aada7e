package redis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// TestLeasable: the quick scripts decide takes of a node that holds no units of a key as decide.lua
// does, and leave the same state, whatever others hold of it.
func TestLeasable(t *testing.T) {
	server := testkit.StartRedis(t)
	quick, general := openIn(t, server, "leasable"), openIn(t, server, "leasable")
	general.GeneralForTest()
	lends := openIn(t, server, "leasable")
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100},
		{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 100}, // what was lent outlasts t
		{Algorithm: stint.TokenBucket, Requests: 20, Per: time.Second, Burst: 100},     // a denied take may fit after they are written off
		{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Hour, Burst: 64},
		{Requests: 100, Per: time.Second},
		{Requests: 100, Per: time.Hour},
	} {
		limit := stint.MustLimit(spec)
		for round := range 20 {
			l := leasableRound{t: t, r: r, server: server, limit: limit, key: stint.Key(fmt.Sprint(round)), kept: round%2 == 0}
			l.lend(lends)
			for range 12 {
				l.compare(quick, general)
			}
		}
	}
}

type leasableRound struct {
	t      *testing.T
	r      *rand.Rand
	server *testkit.RedisServer
	limit  *stint.Limit
	key    stint.Key
	kept   bool // after a loss
}

// ask asks for takes, each by itself, with a loan.
func (l *leasableRound) ask(s *redis.Store, key stint.Key, at stint.Instant, a stint.Loan, costs ...int) []stint.Decision {
	l.t.Helper()
	a.KeptAfterLoss = l.kept
	call := stint.Call{At: at}
	for _, cost := range costs {
		call.Takes = append(call.Takes, stint.Take{Key: key, Limit: l.limit, Cost: uint32(cost), Independent: true, Handling: &stint.Handling{Loan: &a}})
	}
	testkit.Must(l.t, s.Decide(l.t.Context(), &call))
	return call.Results
}

// lend lends units of the key to some nodes, some so long ago that they are to be written off, some
// by a clock that was ahead.
func (l *leasableRound) lend(s *redis.Store) {
	for node := range l.r.IntN(4) {
		ago := time.Duration(l.r.Int64N(int64(3 * time.Second)))
		if l.r.IntN(2) == 0 { // about when units are written off, and only then known to be spent
			ago = 2500*time.Millisecond + time.Duration(l.r.Int64N(int64(400*time.Millisecond)))
		}
		at := stint.At(time.Now()).Add(-ago)
		if l.r.IntN(8) == 0 {
			at = at.Add(10 * time.Second)
		}
		l.ask(s, l.key, at, stint.Loan{Node: uint64(node) + 1, Seq: 1, Want: uint32(l.r.IntN(30))}, l.r.IntN(3))
	}
}

// compare lets one store decide takes of the key, and the other the same takes of a copy at the same
// time.
func (l *leasableRound) compare(quick, general *redis.Store) {
	l.t.Helper()
	name := "leasable:" + l.limit.Algorithm().String() + ":"
	l.server.Do("DEL", name+"copy")
	l.server.Do("COPY", name+string(l.key), name+"copy")
	was := l.server.Do("GET", name+"copy")
	costs := []int{l.r.IntN(40) + l.r.IntN(2)*l.r.IntN(70)}
	at := stint.Instant(0)
	if l.r.IntN(2) == 0 {
		costs = append(costs, l.r.IntN(int(l.limit.Capacity())+2))
		at = stint.At(time.Now()) // decide.lua may decide the second later
	}
	got := l.ask(quick, l.key, at, stint.Loan{}, costs...)
	want := l.ask(general, "copy", got[0].At, stint.Loan{}, costs...)
	charged := false
	for i, cost := range costs {
		if got[i] != want[i] {
			l.t.Fatalf("%s -> %s: of takes of %d, number %d gets\n%+v, decide.lua decides\n%+v", was, l.server.Do("GET", name+string(l.key)), costs, i, got[i], want[i])
		}
		charged = charged || got[i].Allowed && cost > 0
	}
	if a, b := l.server.Do("GET", name+string(l.key)), l.server.Do("GET", name+"copy"); charged && a != b {
		l.t.Fatalf("%s: takes of %d leave %s, decide.lua leaves %s", was, costs, a, b)
	}
}
