package redis_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
	"stint/store/redis/script"
)

// lent refills 80 units in 800 seconds.
var lent = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 10 * time.Second, Burst: 80})

// lend takes one unit and asks for a loan.
func lend(t testing.TB, s stint.Store, key stint.Key, a stint.Loan) (stint.Decision, stint.Loan) {
	t.Helper()
	return lendAt(t, s, 0, key, a)
}

// lendAt is lend at a time, 0 for that of the server.
func lendAt(t testing.TB, s stint.Store, at stint.Instant, key stint.Key, a stint.Loan) (stint.Decision, stint.Loan) {
	t.Helper()
	call := stint.Call{At: at, Takes: []stint.Take{{Key: key, Limit: lent, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}, Loan: &a}}}}
	if err := s.Decide(context.Background(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results[0], a
}

// A server that lost its data, which it learns from a node that knew its epoch, does not grant
// units that others may still have; a server whose epoch nobody remembers is new.
func TestEpochs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		lose       func(*testkit.RedisServer)
		stranger   bool
		kept       bool
		node       uint64 // of the next ask; 0: it does not ask for units
		wantLost   bool
		wantPassed bool
	}{
		{"nothing happens", func(*testkit.RedisServer) {}, false, false, 0, false, true},
		{"it is emptied", func(s *testkit.RedisServer) { s.Do("FLUSHALL") }, false, false, 0, true, false},
		{"somebody writes over the epoch", func(s *testkit.RedisServer) { s.Do("DEL", "epoch:epoch"); s.Do("RPUSH", "epoch:epoch", "x") }, false, false, 8, true, false},
		{"an older epoch is written back", func(s *testkit.RedisServer) {
			s.Do("SET", "epoch:epoch", "1"+s.Do("GET", "epoch:epoch")[1:2]+"00"+s.Do("GET", "epoch:epoch")[4:])
		}, false, false, 8, true, false},
		{"it starts again", (*testkit.RedisServer).Restart, false, false, 0, true, false},
		{"it starts again, for a rule whose keys start unused", (*testkit.RedisServer).Restart, false, true, 8, true, true},
		{"it is emptied, and a stranger comes first", func(s *testkit.RedisServer) { s.Do("FLUSHALL") }, true, false, 0, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := testkit.StartRedis(t)
			known, stranger := openIn(t, server, "epoch"), openIn(t, server, "epoch")
			d, first := lend(t, known, "a", stint.Loan{Node: 7, Seq: 1, Want: 10})
			if !d.Allowed || first.Grant != 10 || first.Lease < time.Second || first.Began == 0 {
				t.Fatalf("%+v %+v", d, first)
			}
			test.lose(server)
			asked := known
			if test.stranger {
				asked = stranger
			}
			var next stint.Loan
			testkit.Until(t, "the server answers", func() bool {
				call := stint.Call{Takes: []stint.Take{{Key: "b", Limit: lent, Cost: 1, Handling: &stint.Handling{Loan: &stint.Loan{Node: test.node, Seq: 1, KeptAfterLoss: test.kept}}}}}
				if err := asked.Decide(context.Background(), &call); err != nil {
					return false
				}
				d, next = call.Results[0], *call.Takes[0].Loan()
				return true
			})
			if lost := next.Began != first.Began && !test.stranger; lost && test.wantLost && !test.kept {
				// A key that this epoch does not know is used up for lease.lua too.
				if d, a := lend(t, asked, "c", stint.Loan{Node: 9, Seq: 1, Want: 10}); d.Allowed || a.Grant > 0 {
					t.Errorf("after the loss another key gets %+v %+v", d, a)
				}
			}
			if lost := next.Began != first.Began && !test.stranger; lost != test.wantLost || d.Allowed != test.wantPassed {
				t.Errorf("epoch %d then %d, and another key gets %+v", first.Began, next.Began, d)
			}
		})
	}
}

// A node reports a lease of the epoch before: with KeptAfterLoss the server, whose data is the same,
// takes back what the node gives back and leaves it the rest; otherwise the lease is void.
func TestLeaseOutlivesEpoch(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			server := testkit.StartRedis(t)
			s := openIn(t, server, "outlive")
			_, first := lend(t, s, "a", stint.Loan{Node: 7, Seq: 1, Want: 10, KeptAfterLoss: kept})
			server.Do("SET", "outlive:epoch", strings.Replace(server.Do("GET", "outlive:epoch"), " 0 ", " 0 x", 1)) // as another server wrote it
			d, next := lend(t, s, "a", stint.Loan{Node: 7, Seq: 2, Epoch: first.Began, Kept: 4, Home: 3, KeptAfterLoss: kept})
			var state stint.State
			at := first.Began
			model := stint.Loan{Node: 7, Seq: 1, Want: 10, KeptAfterLoss: kept}
			lent.ForStores().Report(&state, at, &model, stint.Epoch{Began: at})
			want := lent.Take(&state, at, 1)
			lent.ForStores().Lend(&state, at, &model, 1, &want)
			model = stint.Loan{Node: 7, Seq: 2, Epoch: at, Kept: 4, Home: 3, KeptAfterLoss: kept}
			lent.ForStores().Report(&state, at+1, &model, stint.Epoch{Began: at + 1, Lost: true})
			want = lent.Take(&state, at+1, 1)
			lent.ForStores().Lend(&state, at+1, &model, 1, &want)
			if next.Began == first.Began || next.Held != model.Held || d.Allowed != want.Allowed || kept && d.Remaining < want.Remaining {
				t.Errorf("%+v %+v, want %+v %+v", d, next, want, model)
			}
			if held := map[bool]uint32{true: 4}[kept]; next.Held != held {
				t.Errorf("the node may keep %d, want %d", next.Held, held)
			}
		})
	}
}

// The quick scripts decide a key that may be lent and is rarely used, like one that cannot be lent.
// If an epoch was lost a short time ago, or a node has units of it, decide.lua decides.
func TestCold(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "cold")
	calls := func(command string) (n int) {
		_, stats, _ := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_"+command+":calls=")
		_, err := fmt.Sscanf(stats, "%d", &n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ask := func(key stint.Key) stint.Loan {
		t.Helper()
		d, a := lend(t, s, key, stint.Loan{})
		if !d.Allowed || a.Began == 0 || a != (stint.Loan{Began: a.Began}) {
			t.Errorf("%s: %+v %+v", key, d, a)
		}
		return a
	}
	// The server loads quick.lua.
	decide(t, s, stint.Take{Key: "x", Limit: lent, Cost: 1, Independent: true}, stint.Take{Key: "y", Limit: lent, Cost: 1, Independent: true})
	began := ask("a").Began
	lend(t, s, "busy", stint.Loan{Node: 7, Seq: 1, Want: 10})
	for _, test := range []struct {
		name    string
		key     stint.Key
		do      func()
		scripts int
		denied  bool
		begins  bool // another epoch
	}{
		{"a key", "a", nil, 1, false, false},
		{"another one", "b", nil, 1, false, false},
		{"one of which somebody holds units", "busy", nil, 1, false, false},
		{"the server was emptied", "d", func() { server.Do("FLUSHDB") }, 2, true, true},
		{"and is known to have been", "e", nil, 1, true, false},
		{"that was long ago", "f", func() { redis.AgeEpochForTest(s) }, 1, false, false},
		{"the server has a new interpreter", "g", func() { server.Do("SCRIPT", "FLUSH") }, 2, true, false},
		{"which is remembered", "h", nil, 1, false, false},
		{"somebody writes over its key", "i", func() { server.Do("SET", "cold:process", "x") }, 2, true, false},
		{"which is mended", "j", nil, 1, false, false},
	} {
		if test.do != nil {
			test.do()
		}
		before := calls("evalsha")
		call := stint.Call{Takes: []stint.Take{{Key: test.key, Limit: lent, Cost: 1, Handling: &stint.Handling{Loan: &stint.Loan{}}}}}
		if err := s.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		next := call.Takes[0].Loan().Began
		if call.Results[0].Allowed == test.denied || (next != began) != test.begins {
			t.Errorf("%s: %+v in epoch %d after %d", test.name, call.Results[0], next, began)
		}
		began = next
		if n := calls("evalsha") - before; n != test.scripts {
			t.Errorf("%s: %d scripts, want %d", test.name, n, test.scripts)
		}
	}
}

// TestLeaseScript: once there is an epoch, lease.lua alone decides takes of busy buckets and the
// messages of nodes, each with one call for all that wait.
func TestLeaseScript(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "lease")
	calls := func() (n int) {
		_, stats, _ := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_evalsha:calls=")
		_, _ = fmt.Sscanf(stats, "%d", &n)
		return n
	}
	lend(t, s, "a", stint.Loan{Node: 7, Seq: 1, Want: 10})
	if loaded := server.Do("SCRIPT", "EXISTS", fmt.Sprintf("%x", sha1.Sum([]byte(script.Text("terms", "lease"))))); loaded != "1" {
		t.Fatalf("lease.lua was not asked: %q", loaded)
	}
	before := calls()
	for i := range 20 {
		d, a := lend(t, s, stint.Key(fmt.Sprint(i%3)), stint.Loan{Node: uint64(i%4) + 1, Seq: uint64(i) + 2, Want: 10, Kept: 3, Home: 2})
		if !d.Allowed || a.Began == 0 {
			t.Errorf("%d: %+v %+v", i, d, a)
		}
	}
	call, asks := stint.Call{}, [30]stint.Loan{}
	for i := range asks {
		asks[i] = stint.Loan{Node: 9, Seq: uint64(i) + 1, Want: 10}
		call.Takes = append(call.Takes, stint.Take{Key: stint.Key(fmt.Sprint("message", i)), Limit: lent, Independent: true, Handling: &stint.Handling{Loan: &asks[i]}})
	}
	testkit.Must(t, s.Decide(t.Context(), &call))
	for i, a := range asks {
		if a.Grant != 10 {
			t.Errorf("key %d of the message: %+v", i, a)
		}
	}
	if n := calls() - before; n != 21 {
		t.Errorf("%d scripts for 21 calls", n)
	}
}

// Only scripts that lend units or take reports read the server's run id, once for all keys of a call.
func TestRunID(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "run")
	lend(t, s, "a", stint.Loan{}) // begins an epoch
	reads := func() (n int) {
		_, stats, _ := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_info:calls=")
		_, err := fmt.Sscanf(stats, "%d", &n)
		testkit.Must(t, err)
		return n
	}
	messages := stint.Call{}
	for i := range 30 {
		messages.Takes = append(messages.Takes, stint.Take{
			Key: stint.Key(fmt.Sprint("message", i)), Limit: lent, Independent: true,
			Handling: &stint.Handling{Loan: &stint.Loan{Node: 9, Seq: uint64(i) + 1, Want: 10}},
		})
	}
	for _, test := range []struct {
		name string
		do   func()
		want int
	}{
		{"takes of nodes that hold nothing", func() {
			for i := range 90 {
				lend(t, s, stint.Key(fmt.Sprint(i%3)), stint.Loan{KeptAfterLoss: i%2 == 0})
			}
		}, 0},
		{"a message about 30 keys", func() { testkit.Must(t, s.Decide(t.Context(), &messages)) }, 1},
	} {
		before := reads()
		test.do()
		if n := reads() - before - 1; n != test.want { // the second reading of the figures counts too
			t.Errorf("%s: the run id was read %d times, want %d", test.name, n, test.want)
		}
	}
}

// The loans of a key that no node mentions again expire with the key.
func TestLentExpires(t *testing.T) {
	s := openIn(t, testkit.StartRedis(t), "lent")
	lendAt(t, s, noon, "a", stint.Loan{Node: 7, Seq: 1, Want: 10})
	lendAt(t, s, noon, "a", stint.Loan{Node: 8, Seq: 1, Want: 3})
	call := stint.Call{At: noon, Takes: []stint.Take{{Key: "a", Limit: lent, Cost: 0}}}
	if err := s.Decide(context.Background(), &call); err != nil || call.Results[0].Remaining != 65 {
		t.Fatalf("%+v, %v", call.Results, err)
	}
}

// On a Cluster each partition lends for itself, also in a call of several partitions, whether it
// passes or not.
func TestLendOnCluster(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	s := openCluster(t, cluster)
	parts, began := map[int]bool{}, map[stint.Key]stint.Instant{}
	for _, key := range []stint.Key{"a", "b", "c", "d", "e", "f"} {
		parts[s.Part(&stint.Take{Key: key, Limit: lent})] = true
		d, a := lendAt(t, s, noon, key, stint.Loan{Node: 7, Seq: 1, Want: 10})
		if !d.Allowed || a.Grant != 10 {
			t.Errorf("%s: %+v %+v", key, d, a)
		}
		began[key] = a.Began
	}
	if len(parts) < 3 {
		t.Fatalf("all keys lie in %d partitions", len(parts))
	}
	for i, test := range []struct {
		cost      uint32 // of the key b
		want      uint32
		kept      [2]uint32
		grant     [2]uint32
		passes    bool
		remaining int64 // of the key a
	}{
		{1, 10, [2]uint32{4, 4}, [2]uint32{8, 8}, true, 60},
		{100, 4, [2]uint32{12, 12}, [2]uint32{4, 0}, false, 56}, // recalls the loans of b
		{60, 2, [2]uint32{16, 12}, [2]uint32{2, 0}, true, 53},
		{60, 2, [2]uint32{18, 12}, [2]uint32{0, 0}, false, 53},
	} {
		ask := func(n int, key stint.Key) *stint.Loan {
			return &stint.Loan{Node: 7, Seq: uint64(i) + 2, Want: test.want, Kept: test.kept[n], Epoch: began[key]}
		}
		a, b := ask(0, "a"), ask(1, "b")
		call := stint.Call{At: noon, Takes: []stint.Take{{Key: "a", Limit: lent, Cost: 1, Handling: &stint.Handling{Loan: a}}, {Key: "b", Limit: lent, Cost: test.cost, Handling: &stint.Handling{Loan: b}}}}
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
		d, _ := stint.Combine(call.Results)
		if d.Allowed != test.passes || a.Began != began["a"] || b.Began != began["b"] || [2]uint32{a.Grant, b.Grant} != test.grant || a.Held != test.kept[0] || call.Results[0].Remaining != test.remaining {
			t.Errorf("%d: %+v, %+v %+v, want %+v", i, call.Results, a, b, test)
		}
	}
}

var _ interface{ Part(*stint.Take) int } = (*redis.Store)(nil)

// Lending returns who has how many units of a key, and changes nothing.
func TestLending(t *testing.T) {
	t.Parallel()
	for _, key := range []stint.Key{"a", stint.Key(make([]byte, 300))} {
		s := openIn(t, testkit.StartRedis(t), "lending")
		take := &stint.Take{Key: key, Limit: lent}
		now := stint.At(time.Now())
		if epoch, all, err := s.Lending(t.Context(), take, now); err != nil || epoch != 0 || len(all) > 0 {
			t.Errorf("nothing was lent: %v %+v, %v", epoch, all, err)
		}
		call := stint.Call{Takes: []stint.Take{{Key: key, Limit: lent, Cost: 1}}}
		if err := s.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		if _, all, err := s.Lending(t.Context(), take, now); err != nil || len(all) > 0 {
			t.Errorf("something was taken, and nothing lent: %+v, %v", all, err)
		}
		_, first := lend(t, s, key, stint.Loan{Node: 7, Seq: 1, Want: 10})
		lend(t, s, key, stint.Loan{Node: 1<<53 - 1, Seq: 1, Want: 5})
		for range 2 {
			epoch, all, err := s.Lending(t.Context(), take, now)
			if err != nil || epoch != first.Began || len(all) != 2 {
				t.Fatalf("%+v, %v", all, err)
			}
			a, b := all[0], all[1]
			if a.Node != 7 || a.Units != 10 || b.Node != 1<<53-1 || b.Units != 5 || a.At > b.At || a.At.Sub(now).Abs() > time.Minute {
				t.Errorf("%+v", all)
			}
		}
		if _, all, _ := s.Lending(t.Context(), take, now.Add(time.Minute)); len(all) > 0 {
			t.Errorf("a minute later %+v", all)
		}
	}
}
