package records

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// Of three nodes, each sees what another changes: bans, patterns, plans, keys.
func TestSharedChangesAreInForce(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 3)
	address := netip.MustParseAddr("192.0.2.7")
	key := keyOf("secret", "user=42")
	var slowest time.Duration
	for round := range 5 {
		writer := nodes[round%3]
		known := func(n *sharer) (k *Known, banned bool, valid *APIKey) {
			k = lookup(t, n.File, "user", "42")
			_, banned = n.BannedAddress(address, start)
			valid, err := n.Key(key.Hash, start)
			testkit.Must(t, err)
			return k, banned, valid
		}
		all := func(what string, holds func(k *Known, banned bool, valid *APIKey) bool) {
			t.Helper()
			began := time.Now()
			for _, n := range nodes {
				wait(t, what, func() bool { return holds(known(n)) })
			}
			slowest = max(slowest, time.Since(began))
		}
		writer.write(Subject{Name: "user=42", Kind: User, Plan: fmt.Sprint("plan-", round)}, ban, key,
			Override{Target: "user=4*", Rule: "api/user", Requests: uint32(round) + 1})
		all("in force everywhere", func(k *Known, banned bool, valid *APIKey) bool {
			return k.Subject != nil && k.Subject.Plan == fmt.Sprint("plan-", round) && banned && valid != nil && k.Override("api/user", start).Requests == uint32(round)+1
		})
		_, err := nodes[(round+1)%3].Apply(t.Context(), Change{Edits: []Edit{
			{Delete: subject.ID()}, {Delete: ban.ID()}, {Delete: key.ID()}, {Delete: ID{Overrides, "user=4*" + separator + "api/user"}},
		}}, start)
		testkit.Must(t, err)
		all("ended everywhere", func(k *Known, banned bool, valid *APIKey) bool {
			return k.Subject == nil && !banned && valid == nil && k.Override("api/user", start) == nil
		})
	}
	t.Logf("the slowest change was in force everywhere after %v", slowest)
	agree(t, nodes...)
	wait(t, "each node knows what the others have", func() bool {
		for _, n := range nodes {
			s := n.Status(time.Now())
			if len(s.Nodes) != 3 || s.Error != "" || s.Age > time.Second {
				return false
			}
			for _, other := range s.Nodes {
				if other.Revision != s.Revision || time.Since(other.Seen) > time.Minute {
					return false
				}
			}
		}
		return true
	})
}

// Two nodes write one record at the same revision: one of them gets the conflict.
func TestSharedConflict(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 2)
	revision := nodes[0].write(subject)
	for round := range 20 {
		var made, conflicts atomic.Int32
		var next atomic.Uint64
		var writers sync.WaitGroup
		for i, n := range nodes {
			writers.Go(func() {
				s := subject
				s.Notes = fmt.Sprint(round, i)
				out, err := n.Apply(t.Context(), Change{Edits: []Edit{{Put: s, IfMatch: revision}}}, start)
				switch {
				case err == nil:
					made.Add(1)
					next.Store(out.Revision)
				case errors.Is(err, ErrConflict):
					conflicts.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if made.Load() != 1 || conflicts.Load() != 1 {
			t.Fatalf("%d made, %d conflicts", made.Load(), conflicts.Load())
		}
		revision = next.Load()
	}
	// The writer who lost reads the change of the other at once, on its own node too.
	for _, n := range nodes {
		s := subject
		s.Notes = "later"
		out, err := n.Apply(t.Context(), Change{Edits: []Edit{{Put: s, IfMatch: revision}}}, start)
		testkit.Must(t, err)
		revision = out.Revision
	}
	agree(t, nodes...)
}

// The same idempotency key on several nodes at once makes one change, or refuses it once.
func TestSharedIdempotency(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 3)
	last := nodes[0].write(subject)
	for round := range 20 {
		c := Change{Edits: []Edit{{Put: Ban{Subject: fmt.Sprint("user=", round)}, IfAbsent: true}}, IdempotencyKey: fmt.Sprint("key-", round)}
		if round%4 == 3 { // refused
			c.Edits = append(c.Edits, Edit{Delete: override.ID()})
		}
		var repeated, refused atomic.Int32
		var revisions sync.Map
		var writers sync.WaitGroup
		for _, n := range nodes {
			writers.Go(func() {
				out, err := n.Apply(t.Context(), c, start)
				switch {
				case errors.Is(err, ErrMissing):
					refused.Add(1)
				case err != nil:
					t.Error(err)
				case out.Repeated:
					repeated.Add(1)
				}
				revisions.Store(out.Revision, true)
			})
		}
		writers.Wait()
		want := last
		if round%4 == 3 {
			if refused.Load() != 3 {
				t.Fatalf("refused %d times", refused.Load())
			}
			// What was missing is there now; the outcome stays.
			last = nodes[1].write(override)
			if _, err := nodes[2].Apply(t.Context(), c, start); !errors.Is(err, ErrMissing) {
				t.Errorf("the repeat of a refused change: %v", err)
			}
			_, err := nodes[0].Apply(t.Context(), Change{Edits: []Edit{{Delete: override.ID()}}}, start)
			testkit.Must(t, err)
			last++
			continue
		}
		want++
		if _, ok := revisions.Load(want); !ok || repeated.Load() != 2 {
			t.Fatalf("%d repeated, revision %d is missing", repeated.Load(), want)
		}
		last = want
	}
	agree(t, nodes...)
}

// Writers on all nodes at once: nothing is lost.
func TestSharedWriters(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 3)
	var writers sync.WaitGroup
	for i, n := range nodes {
		writers.Go(func() {
			for j := range 40 {
				n.write(Subject{Name: fmt.Sprintf("user=%d-%d", i, j), Kind: User})
			}
		})
	}
	writers.Wait()
	agree(t, nodes...)
	if got := len(contentOf(t, nodes[0].File)); got != 120 {
		t.Errorf("%d records", got)
	}
}

// While Redis is frozen, a change is refused soon and decisions go on with what is known, whose age
// grows. Afterwards changes can be made again.
func TestSharedWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	nodes := fleet(t, server.URL(), 2)
	nodes[0].write(subject, ban)
	agree(t, nodes...)
	for name, outage := range map[string]struct{ begin, end func() }{"frozen": {server.Freeze, server.Thaw}, "stopped": {server.Stop, server.Restart}} {
		before := nodes[0].Status(time.Now()).Age
		outage.begin()
		began := time.Now()
		var decided atomic.Int64
		var slowest atomic.Int64
		done := make(chan bool)
		var decisions sync.WaitGroup
		decisions.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				at := time.Now()
				if k, err := nodes[0].Lookup("user", fmt.Sprint(i%20000)); err != nil || i%20000 == 42 && k.Subject == nil {
					t.Errorf("%v, %v", k, err)
				}
				if _, banned := nodes[0].BannedAddress(netip.MustParseAddr("192.0.2.7"), start); !banned {
					t.Error("the ban ended")
				}
				decided.Add(1)
				slowest.Store(max(slowest.Load(), int64(time.Since(at))))
			}
		})
		var writers sync.WaitGroup
		for i := range 6 { // on one node, so that they wait for each other
			writers.Go(func() {
				at := time.Now()
				_, err := nodes[0].Apply(t.Context(), Change{Edits: []Edit{{Put: Subject{Name: fmt.Sprint("user=lost", name, i), Kind: User}}}}, start)
				if took := time.Since(at); !errors.Is(err, ErrUnavailable) || took > deadline {
					t.Errorf("%s: %v after %v", name, err, took)
				}
			})
		}
		writers.Wait()
		testkit.Until(t, "their ages grow", func() bool {
			return nodes[0].Status(time.Now()).Age > 2*time.Second && nodes[0].Status(time.Now()).Error != "" &&
				nodes[1].Status(time.Now()).Age > 2*time.Second // either may have been behind when the outage began
		})
		if age := nodes[0].Status(time.Now()).Age; age > time.Since(began)+before+time.Second {
			t.Errorf("%s: age %v after %v, at first %v", name, age, time.Since(began), before)
		}
		nodes[1].restart()
		if lookup(t, nodes[1].File, "user", "42").Subject == nil || nodes[1].Status(time.Now()).Age < time.Second {
			t.Errorf("%s: a node that starts without Redis does not know the records, or their age: %v", name, nodes[1].Status(time.Now()))
		}
		close(done)
		decisions.Wait()
		if decided.Load() == 0 || slowest.Load() > int64(deadline) {
			t.Errorf("%s: %d decisions, the slowest took %v", name, decided.Load(), time.Duration(slowest.Load()))
		}
		outage.end()
		nodes[0].write(Subject{Name: "user=after-" + name, Kind: User})
		agree(t, nodes...)
		testkit.Until(t, "its age is small again", func() bool {
			s := nodes[0].Status(time.Now())
			return s.Age < time.Second && s.Error == ""
		})
		for _, want := range []string{"level=WARN msg=\"cannot read the changes of records", "level=INFO msg=\"changes of records can be read again"} {
			testkit.Until(t, name+": the log says "+want, func() bool { return strings.Contains(nodes[0].log.String(), want) })
		}
	}
}

// A change whose answer is lost is unknown, and its repeat on another node has the outcome.
func TestSharedAnswerLost(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{})
	dir := t.TempDir()
	a, b := share(t, "redis://"+proxy.Addr(), filepath.Join(dir, "a")), share(t, server.URL(), filepath.Join(dir, "b"))
	a.write(subject)
	// Redis executes a script of 100 ms at most; the answer is held back for longer.
	proxy.Set(testkit.ProxyOptions{Delay: 700 * time.Millisecond})
	c := Change{Edits: []Edit{{Put: ban}}, IdempotencyKey: "once"}
	_, err := a.Apply(t.Context(), c, start)
	if !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	proxy.Set(testkit.ProxyOptions{})
	proxy.Cut()
	var out Outcome
	testkit.Until(t, "the repeat is made", func() bool {
		out, err = b.Apply(t.Context(), c, start)
		return err == nil
	})
	if again, err := b.Apply(t.Context(), c, start); err != nil || !again.Repeated || again.Revision != out.Revision {
		t.Errorf("%v, %v, first %v", again, err, out)
	}
	agree(t, a, b)
	if got := a.Status(start).Revision; got != 2 {
		t.Errorf("revision %d", got)
	}
}

// Redis loses its data: what it has afterwards is completed from the nodes' copies.
func TestSharedRedisLosesData(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	nodes := fleet(t, server.URL(), 3)
	for i := range 30 {
		nodes[i%3].write(Subject{Name: fmt.Sprint("user=", i), Kind: User}, ban)
	}
	agree(t, nodes...)
	want := sharedOf(t, nodes[0].File)

	for name, lose := range map[string]func(){
		"emptied":   func() { server.Do("FLUSHALL") },
		"restarted": server.Restart,
		"without its head": func() {
			server.Do("DEL", "shop:{records}:head")
		},
		"without its state": func() { // a server may evict it alone
			server.Do("DEL", "shop:{records}:state")
		},
	} {
		lose()
		testkit.Until(t, "Redis has the head and the state again", func() bool {
			return server.Do("HGET", "shop:{records}:head", "hash") != "" && server.Do("HLEN", "shop:{records}:state") != "0"
		})
		agree(t, nodes...)
		if got := sharedOf(t, nodes[1].File); !equal(got, want) {
			t.Fatalf("%s: %s", name, difference(want, got))
		}
		nodes[0].write(Ban{Subject: "user=" + hex.EncodeToString([]byte(name))})
		agree(t, nodes...)
		want = sharedOf(t, nodes[0].File)
	}
}

// Redis has lost everything, and a new node makes a change at once: it waits for a node that has the
// records.
func TestSharedNewNodeWaits(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	old := fleet(t, server.URL(), 1)[0]
	old.write(subject, ban)
	agree(t, old)
	old.stop()
	server.Do("FLUSHALL")
	fresh := share(t, server.URL(), filepath.Join(t.TempDir(), "new"))
	var starting sync.WaitGroup
	starting.Go(func() { old.start() })
	fresh.write(banned)
	starting.Wait()
	agree(t, old, fresh)
	if m := contentOf(t, fresh.File); len(m) != 3 {
		t.Errorf("%v", m)
	}
}

// Redis is restored from an older copy: the nodes append what it lost.
func TestSharedOlderCopy(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t, "--enable-debug-command", "yes")
	nodes := fleet(t, server.URL(), 3)
	nodes[0].write(subject)
	agree(t, nodes...)
	put := dump(server)
	for i := range 40 {
		nodes[i%3].write(Subject{Name: fmt.Sprint("user=", i), Kind: User})
	}
	agree(t, nodes...)
	want := sharedOf(t, nodes[0].File)
	put()
	testkit.Until(t, "Redis has all again", func() bool { return server.Do("HGET", "shop:{records}:head", "number") == "41" })
	agree(t, nodes...)
	if got := sharedOf(t, nodes[2].File); !equal(got, want) {
		t.Error(difference(want, got))
	}
	nodes[1].write(ban)
	agree(t, nodes...)
}

// A node was alone with changes that Redis lost, and Redis has other ones since. Those in Redis win,
// the log names the lost ones, and the old file is kept.
func TestSharedHistoriesDiffer(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t, "--enable-debug-command", "yes")
	nodes := fleet(t, server.URL(), 2)
	nodes[0].write(subject)
	agree(t, nodes...)
	put := dump(server)
	nodes[1].stop() // at revision 1
	lost := nodes[0].write(Ban{Subject: "user=lost"}, banned)
	nodes[0].stop()
	put()
	nodes[1].start()
	nodes[1].write(Ban{Subject: "user=other"})
	nodes[0].start()
	agree(t, nodes...)
	m := contentOf(t, nodes[0].File)
	if m[ID{Bans, "user=lost"}] != nil || m[ID{Bans, "user=other"}] == nil || lookup(t, nodes[0].File, "user", "42").Ban(start) != nil {
		t.Errorf("%v", m)
	}
	testkit.Until(t, "the log says so", func() bool { return strings.Contains(nodes[0].log.String(), "ban user=lost") })
	if said := nodes[0].log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, "lost_first=2 lost_last=2") || !strings.Contains(said, nodes[0].path+".lost") {
		t.Errorf("after losing revision %d:\n%s", lost, said)
	}
	kept := open(t, nodes[0].path+".lost")
	if contentOf(t, kept)[ID{Bans, "user=lost"}] == nil {
		t.Error("the old file does not have the lost ban")
	}
	nodes[0].write(ban)
	agree(t, nodes...)
}

// A node that was away for longer than the log reaches back, and a new one, read the whole state.
// Meanwhile changes go on.
func TestSharedJoin(t *testing.T) {
	t.Parallel()
	t.Run("few", func(t *testing.T) { join(t, 5_000) })
	t.Run("many", func(t *testing.T) {
		testkit.Long(t)
		records := 100_000
		if testkit.Race { // ten times as slow
			records = 10_000
		}
		join(t, records)
	})
}

func join(t *testing.T, records int) {
	t.Helper()
	server := testkit.StartRedis(t)
	nodes := fleet(t, server.URL(), 2)
	nodes[1].write(subject)
	agree(t, nodes...)
	nodes[1].stop()
	for at := 0; at < records; at += 2000 {
		var some []Record
		for i := at; i < min(at+2000, records); i++ {
			some = append(some, Subject{Name: fmt.Sprintf("user=%06d", i), Kind: User, Plan: "pro", Notes: "some notes of usual length"})
		}
		nodes[0].write(some...)
	}
	server.Do("XTRIM", "shop:{records}:log", "MAXLEN", "1") // as after many more changes: what follows revision 1 is gone
	stop := make(chan bool)
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				nodes[0].write(Subject{Name: fmt.Sprintf("user=%06d", i*97%records), Kind: User, Plan: fmt.Sprint("changed-", i)})
			}
		}
	})
	began := time.Now()
	joined := share(t, server.URL(), filepath.Join(t.TempDir(), "joined"))
	nodes[1].start()
	seen := map[int]bool{}
	for _, n := range []*sharer{joined, nodes[1]} {
		testkit.Until(t, "it has the records", func() bool {
			count := 0
			for _, err := range n.All(Subjects) {
				testkit.Must(t, err)
				count++
			}
			seen[count] = true
			return count >= records
		})
	}
	t.Logf("%d records after %v", records, time.Since(began))
	for count := range seen { // 0 or 1 before, all afterwards, never a part
		if count > 1 && count < records {
			t.Errorf("%d of %d records were seen", count, records)
		}
	}
	close(stop)
	writers.Wait()
	agree(t, append(nodes, joined)...)
	for _, left := range []string{nodes[1].path + ".sync", nodes[1].path + ".lost", joined.path + ".lost"} {
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
	nodes[1].restart() // the new file is complete on disk
	agree(t, append(nodes, joined)...)
}

// A file that was not shared becomes the beginning of the shared records, if Redis has none.
func TestSharedFromFile(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	path := filepath.Join(t.TempDir(), "records.db")
	alone := open(t, path)
	put(t, alone, subject, ban, pattern)
	testkit.Must(t, alone.Close())
	first := share(t, server.URL(), path)
	second := share(t, server.URL(), filepath.Join(t.TempDir(), "second"))
	testkit.Until(t, "the second node has it", func() bool { return len(contentOf(t, second.File)) == 3 })
	agree(t, first, second)
	second.write(banned)
	agree(t, first, second)

	// Used alone again, it is no longer a copy: what it alone has is not in force elsewhere.
	first.stop()
	alone = open(t, path)
	put(t, alone, Ban{Subject: "user=alone"})
	testkit.Must(t, alone.Close())
	first.start()
	agree(t, first, second)
	if m := contentOf(t, second.File); m[ID{Bans, "user=alone"}] != nil || len(m) != 4 {
		t.Errorf("%v", m)
	}
	for _, part := range []string{"was not shared", "user=alone", "lost_records=1 ", path + ".lost"} {
		if said := first.log.String(); !strings.Contains(said, part) {
			t.Errorf("%q is not in the log:\n%s", part, said)
		}
	}
	if kept := open(t, path+".lost"); contentOf(t, kept)[ID{Bans, "user=alone"}] == nil {
		t.Error("the old file is not kept")
	}
}

// A subject that one node erases is erased in the files of all nodes and in the log.
func TestSharedErase(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	nodes := fleet(t, server.URL(), 2)
	name := "user=personal-name"
	nodes[0].write(Subject{Name: name, Kind: User, Notes: "secret-notes"}, Ban{Subject: name, Why: "secret-reason"})
	nodes[1].write(subject)
	agree(t, nodes...)
	_, err := nodes[1].Erase(t.Context(), name, Actor{Name: "alice"}, start)
	testkit.Must(t, err)
	agree(t, nodes...)
	for _, n := range nodes {
		testkit.Until(t, "the file has nothing of it", func() bool {
			data, err := os.ReadFile(n.path)
			testkit.Must(t, err)
			return !bytes.Contains(data, []byte("personal-name")) && !bytes.Contains(data, []byte("secret-"))
		})
	}
	for key, all := range map[string]string{
		"state": server.Do("HGETALL", "shop:{records}:state"),
		"log":   server.Do("XRANGE", "shop:{records}:log", "-", "+"),
	} {
		if strings.Contains(all, "personal-name") || strings.Contains(all, "secret-") || len(all) == 0 {
			t.Errorf("%s has it: %.200q", key, all)
		}
	}
	nodes[0].write(banned)
	agree(t, nodes...)
	// Redis loses the erasure: the nodes restore the state without the subject.
	server.Do("FLUSHALL")
	agree(t, nodes...)
}

// A key that cannot be revoked because Redis is away stays valid, and the caller gets an error. A
// revocation that was made is in force everywhere.
func TestSharedRevoke(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	nodes := fleet(t, server.URL(), 2)
	key := keyOf("secret", "user=42")
	nodes[0].write(key)
	agree(t, nodes...)
	server.Freeze()
	revoke := Change{Edits: []Edit{{Delete: key.ID()}}, IdempotencyKey: "revoke"}
	if _, err := nodes[0].Apply(t.Context(), revoke, start); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	for _, n := range nodes {
		if k, err := n.Key(key.Hash, start); err != nil || k == nil {
			t.Errorf("%v, %v", k, err)
		}
	}
	server.Thaw()
	testkit.Until(t, "it is revoked", func() bool { _, err := nodes[0].Apply(t.Context(), revoke, start); return err == nil })
	for _, n := range nodes {
		wait(t, "the key is refused", func() bool { k, err := n.Key(key.Hash, start); return err == nil && k == nil })
	}
	agree(t, nodes...)
}

// A change that is too large to share is refused as such.
func TestSharedTooLarge(t *testing.T) {
	t.Parallel()
	node := fleet(t, testkit.StartRedis(t).URL(), 1)[0]
	node.write(subject)
	var c Change
	for i := range 20_000 {
		c.Edits = append(c.Edits, Edit{Put: Subject{Name: fmt.Sprint("user=", i), Kind: User, Notes: strings.Repeat("n", 200)}})
	}
	_, err := node.Apply(t.Context(), c, start)
	wantFault(t, err, "records", "nodes share at most", "several smaller changes", nil)
	if errors.Is(err, ErrUnavailable) || errors.Is(err, stint.ErrUnknown) {
		t.Errorf("%v looks as if it could be made later", err)
	}
	node.write(ban)
	agree(t, node)
}

// A subject with more records and entries than nodes can share at once is erased in parts.
func TestSharedEraseMany(t *testing.T) {
	t.Parallel()
	nodes := fleet(t, testkit.StartRedis(t).URL(), 2)
	name := "user=personal-name"
	const most = 4000 // of one change
	changes := 15
	if testing.Short() {
		changes = 9
	}
	for from := range changes {
		var all []Record
		for i := range most {
			all = append(all, Override{Target: name, Rule: fmt.Sprint(strings.Repeat("rule", 20), from*most+i), Requests: 1})
		}
		nodes[0].write(all...)
	}
	number, _ := nodes[0].Head()
	erased, err := nodes[0].Erase(t.Context(), name, Actor{Name: "alice"}, start)
	if errors.Is(err, ErrUnavailable) { // on a slow machine: what is erased already is not counted again
		testkit.Until(t, "the rest is erased", func() bool {
			_, err = nodes[0].Erase(t.Context(), name, Actor{Name: "alice"}, start)
			return err == nil || errors.Is(err, ErrMissing)
		})
	} else if err != nil || erased.Records != changes*most || erased.Entries != int(number) || erased.Revision < uint64(changes)+2 {
		t.Errorf("%+v, %v, %d entries", erased, err, number)
	}
	agree(t, nodes...)
	testkit.Until(t, "the other file has nothing of it", func() bool {
		data, err := os.ReadFile(nodes[1].path)
		testkit.Must(t, err)
		return !bytes.Contains(data, []byte("personal-name"))
	})
	if report, err := nodes[1].Verify(t.Context()); err != nil || report.Break != nil {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := nodes[1].Erase(t.Context(), name, Actor{}, start); !errors.Is(err, ErrMissing) {
		t.Errorf("again: %v", err)
	}
}

func TestSharedCluster(t *testing.T) {
	t.Parallel() // mostly servers that find each other
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	nodes := fleet(t, cluster.URL(), 2)
	for i := range 20 {
		nodes[i%2].write(Subject{Name: fmt.Sprint("user=", i), Kind: User})
	}
	agree(t, nodes...)
}

// A replica without the last changes becomes the primary: the nodes append what it lost.
func TestSharedFailover(t *testing.T) {
	t.Parallel() // mostly servers that find each other
	sentinels := testkit.StartSentinels(t, 1)
	nodes := fleet(t, sentinels.URL(), 2)
	nodes[0].write(subject)
	agree(t, nodes...)
	replica := sentinels.Servers[1]
	testkit.Until(t, "the replica has it", func() bool { return replica.Do("HGET", "shop:{records}:head", "number") == "1" })
	replica.Freeze()
	for i := range 20 {
		nodes[i%2].write(Subject{Name: fmt.Sprint("user=", i), Kind: User})
	}
	agree(t, nodes...)
	want := sharedOf(t, nodes[0].File)
	sentinels.Servers[0].Stop()
	replica.Thaw()
	testkit.Until(t, "the replica is the primary", func() bool { return sentinels.Primary() == replica })
	testkit.Until(t, "it has all", func() bool { return replica.Do("HGET", "shop:{records}:head", "number") == "21" })
	agree(t, nodes...)
	if got := sharedOf(t, nodes[1].File); !equal(got, want) {
		t.Error(difference(want, got))
	}
	nodes[1].write(ban)
	agree(t, nodes...)
}
