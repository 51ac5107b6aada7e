package recordlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/notify"
)

func openDeliveries(t testing.TB, url string) *Deliveries {
	t.Helper()
	d, err := OpenDeliveries(url, "shop")
	testkit.Must(t, err)
	t.Cleanup(d.Close)
	return d
}

func openFile(t testing.TB) *notify.File {
	t.Helper()
	f, err := notify.OpenFile(filepath.Join(t.TempDir(), "webhooks"))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	return f
}

// delivery returns a waiting delivery. The numbers of its event do not fit into a float64.
func delivery(receiver string, n int) notify.Delivery {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return notify.Delivery{Receiver: receiver, State: notify.Waiting, Event: notify.Event{
		ID: fmt.Sprintf("evt_%04d", n), Type: "usage.threshold", Rule: "api/user", Subject: "user=1", Threshold: 80,
		Used: 1<<63 + 1, Of: 1<<64 - 1, PeriodStart: start, PeriodEnd: start.AddDate(0, 1, 0), At: start,
	}}
}

// queueTest drives a queue.
type queueTest struct {
	*testing.T
	q notify.Queue
}

func (t *queueTest) add(list ...notify.Delivery) { testkit.Must(t, t.q.Add(t.Context(), list)) }

func (t *queueTest) claim(receiver string, most int) notify.Claimed {
	t.Helper()
	claimed, err := t.q.Claim(t.Context(), notify.Claim{Receiver: receiver, Max: most, Lease: time.Hour, Keep: 100})
	testkit.Must(t, err)
	return claimed
}

func (t *queueTest) save(d notify.Delivery, s notify.State, then notify.Then) {
	t.Helper()
	d.State, d.Result = s, notify.Result{Tries: d.Tries + 1, Tried: time.Now(), Status: 500, Problem: "the receiver answered 500"}
	testkit.Must(t, t.q.Save(t.Context(), &d, then))
}

func (t *queueTest) list(s notify.State, receiver string) notify.List {
	t.Helper()
	list, err := t.q.List(t.Context(), notify.Query{State: s, Receiver: receiver, Limit: 10})
	testkit.Must(t, err)
	return list
}

func (t *queueTest) retry(receiver, id string, want int) {
	t.Helper()
	if n, err := t.q.Retry(t.Context(), receiver, id); n != want || err != nil {
		t.Errorf("%d are retried, want %d: %v", n, want, err)
	}
}

// counts checks the numbers of a receiver.
func (t *queueTest) counts(receiver string, waiting, failed, delivered int) {
	t.Helper()
	s := t.list(notify.Failed, "").Receivers[receiver]
	if s.Waiting != waiting || s.Failed != failed || s.Delivered != delivered {
		t.Errorf("%s has %+v, want %d waiting, %d failed, %d delivered", receiver, s, waiting, failed, delivered)
	}
}

// walkQueue uses all that a queue can do.
func walkQueue(t *queueTest) {
	t.Helper()
	if c := t.claim("shop", 4); len(c.Deliveries) != 0 || c.Wait >= 0 {
		t.Errorf("an empty queue: %+v", c)
	}
	t.add(delivery("shop", 1), delivery("shop", 2), delivery("other", 1))
	t.add(delivery("shop", 2), delivery("shop", 3))
	t.counts("shop", 3, 0, 0)
	first := t.claim("shop", 2)
	if len(first.Deliveries) != 2 || first.Status.Waiting != 3 {
		t.Fatalf("claimed %+v", first)
	}
	got := first.Deliveries[0]
	if want := delivery("shop", 1); got.Event != want.Event || got.Receiver != "shop" || got.Tries != 0 || !got.Tried.IsZero() {
		t.Errorf("claimed %+v, want %+v", got, want)
	}
	rest := t.claim("shop", 4)
	if len(rest.Deliveries) != 1 || rest.Deliveries[0].Event.ID != "evt_0003" {
		t.Fatalf("claimed once more %+v", rest)
	}
	if c := t.claim("shop", 4); len(c.Deliveries) != 0 || c.Wait < 0 {
		t.Errorf("all are claimed: %+v", c)
	}
	t.save(first.Deliveries[0], notify.Delivered, notify.Then{})
	t.save(first.Deliveries[1], notify.Failed, notify.Then{})
	t.save(rest.Deliveries[0], notify.Waiting, notify.Then{After: time.Hour})
	t.counts("shop", 1, 1, 1)
	t.counts("other", 1, 0, 0)
	if c := t.claim("shop", 4); len(c.Deliveries) != 0 || c.Wait < 59*time.Minute || c.Wait > time.Hour {
		t.Errorf("the next one is due in an hour: %+v", c)
	}
	failed := t.list(notify.Failed, "shop").Deliveries
	if len(failed) != 1 || failed[0].Event != delivery("shop", 2).Event || failed[0].Tries != 1 || failed[0].Status != 500 || failed[0].State != notify.Failed {
		t.Errorf("failed are %+v", failed)
	}
	if waiting := t.list(notify.Waiting, "").Deliveries; len(waiting) != 2 || waiting[0].Receiver != "shop" || waiting[0].Tries != 1 || time.Until(waiting[0].Due) < 50*time.Minute {
		t.Errorf("waiting are %+v", waiting)
	}
	t.add(delivery("shop", 1), delivery("shop", 2)) // events that come again change nothing
	t.counts("shop", 1, 1, 1)
	walkRetry(t)
}

// walkRetry goes on with retries, a pause and a disabled receiver.
func walkRetry(t *queueTest) {
	t.Helper()
	t.retry("shop", "", 1)
	t.retry("shop", "", 0)
	t.retry("shop", "evt_0001", 1)
	t.retry("shop", "evt_0003", 0) // it waits already
	t.retry("shop", "evt_9999", 0)
	t.counts("shop", 3, 0, 0)
	c := t.claim("shop", 4)
	if len(c.Deliveries) != 2 || c.Deliveries[0].Tries != 0 || c.Deliveries[1].Problem != "" {
		t.Fatalf("retried are %+v", c)
	}
	t.save(c.Deliveries[0], notify.Failed, notify.Then{Disable: true})
	t.save(c.Deliveries[1], notify.Waiting, notify.Then{Pause: time.Hour})
	c = t.claim("shop", 4)
	if len(c.Deliveries) != 0 || c.Status.Disabled.IsZero() || time.Until(c.Status.Paused) < 50*time.Minute || c.Wait < 50*time.Minute {
		t.Errorf("the receiver is disabled and paused: %+v", c)
	}
	t.retry("shop", "", 1)
	if c = t.claim("shop", 4); len(c.Deliveries) != 2 || !c.Status.Disabled.IsZero() || c.Status.Paused.After(time.Now()) {
		t.Errorf("the receiver works again: %+v", c)
	}
	if c := t.claim("other", 4); len(c.Deliveries) != 1 {
		t.Errorf("the other receiver: %+v", c)
	}
}

func TestDeliveries(t *testing.T) {
	t.Run("file", func(t *testing.T) { walkQueue(&queueTest{t, openFile(t)}) })
	t.Run("cluster", func(t *testing.T) {
		t.Parallel() // mostly servers that find each other
		cluster := testkit.StartRedisCluster(t, 3)
		cluster.Timeout(testkit.Steady)
		walkQueue(&queueTest{t, openDeliveries(t, cluster.URL())})
	})
	server := testkit.StartRedis(t)
	t.Run("redis", func(t *testing.T) { walkQueue(&queueTest{t, openDeliveries(t, server.URL())}) })
	if keys := server.Do("KEYS", "*"); strings.Contains(keys, "leases") && server.Do("HLEN", "shop:{webhooks}:leases") != "3" {
		t.Errorf("leases are left: %s", server.Do("HGETALL", "shop:{webhooks}:leases"))
	}
}

// After the end of a lease another node has the delivery. What the first one stores late counts only if it
// delivered.
func TestLease(t *testing.T) {
	server := testkit.StartRedis(t)
	for name, nodes := range map[string][2]notify.Queue{
		"file":  {openFile(t)},
		"redis": {openDeliveries(t, server.URL()), openDeliveries(t, server.URL())},
	} {
		t.Run(name, func(t *testing.T) {
			a := &queueTest{t, nodes[0]}
			b := &queueTest{t, nodes[0]}
			if nodes[1] != nil {
				b.q = nodes[1]
			}
			for n, late := range []notify.State{notify.Failed, notify.Delivered} {
				a.add(delivery("shop", n))
				held, err := a.q.Claim(t.Context(), notify.Claim{Receiver: "shop", Max: 1, Lease: 50 * time.Millisecond, Keep: 100})
				if err != nil || len(held.Deliveries) != 1 {
					t.Fatalf("claimed %+v, %v", held, err)
				}
				var taken notify.Claimed
				testkit.Until(t, "the lease ends", func() bool {
					taken = b.claim("shop", 1)
					return len(taken.Deliveries) == 1
				})
				a.save(held.Deliveries[0], late, notify.Then{})
				b.save(taken.Deliveries[0], notify.Waiting, notify.Then{After: time.Hour})
				b.counts("shop", 1, 0, n)
			}
		})
	}
}

// Where too many deliveries ended, the oldest are deleted, and the failed ones of these counted.
func TestKeep(t *testing.T) {
	server := testkit.StartRedis(t)
	for name, q := range map[string]notify.Queue{"file": openFile(t), "redis": openDeliveries(t, server.URL())} {
		t.Run(name, func(t *testing.T) {
			q := &queueTest{t, q}
			const each, keep = 5, 3
			for n := range 2 * each {
				q.add(delivery("shop", n))
			}
			claimed, err := q.q.Claim(t.Context(), notify.Claim{Receiver: "shop", Max: 2 * each, Lease: time.Hour, Keep: keep})
			if err != nil || len(claimed.Deliveries) != 2*each {
				t.Fatalf("%+v, %v", claimed, err)
			}
			for n, d := range claimed.Deliveries {
				q.save(d, []notify.State{notify.Failed, notify.Delivered}[n%2], notify.Then{})
			}
			// A file sweeps at the first claim of each receiver.
			dropped := 0
			for _, receiver := range []string{"other", "shop"} {
				claimed, err := q.q.Claim(t.Context(), notify.Claim{Receiver: receiver, Max: 1, Lease: time.Hour, Keep: keep})
				testkit.Must(t, err)
				dropped += claimed.Dropped
			}
			if dropped != each-keep {
				t.Errorf("%d are dropped", dropped)
			}
			q.counts("shop", 0, keep, keep)
			if got := q.list(notify.Failed, "shop").Deliveries; len(got) != keep || got[keep-1].Event.ID != claimed.Deliveries[2*(each-keep)].Event.ID {
				t.Errorf("kept are %+v", got)
			}
		})
	}
}

// A user with the rights that docs/webhooks.md names can do all that deliveries need.
func TestDeliveryRights(t *testing.T) {
	page, err := os.ReadFile("../../../docs/webhooks.md")
	testkit.Must(t, err)
	_, text, found := strings.Cut(string(page), "\nACL SETUSER webhooks ")
	text, _, ended := strings.Cut(text, "\n```")
	if !found || !ended || strings.Contains(text, "+@") {
		t.Fatalf("the page has no rights: %q", text)
	}
	server := testkit.StartRedis(t)
	if answer := server.Do(append([]string{"ACL", "SETUSER", "webhooks", "reset"}, strings.Fields(text)...)...); answer != "OK" {
		t.Fatal(answer)
	}
	walkQueue(&queueTest{t, openDeliveries(t, strings.Replace(server.URL(), "://", "://webhooks:PASSWORD@", 1))})
}

// A server that is away is an error, not a wait without end; a value of somebody else is one with a hint.
func TestDeliveriesFail(t *testing.T) {
	away := openDeliveries(t, "redis://127.0.0.1:1")
	if err := away.Add(t.Context(), []notify.Delivery{delivery("shop", 1)}); err == nil {
		t.Error("stored with nobody")
	}
	server := testkit.StartRedis(t)
	d := openDeliveries(t, server.URL())
	testkit.Must(t, d.Add(t.Context(), []notify.Delivery{delivery("shop", 1)}))
	server.Do("HSET", "shop:{webhooks}:events", "shop/evt_0001", "nonsense")
	if _, err := d.Claim(t.Context(), notify.Claim{Receiver: "shop", Max: 1, Lease: time.Hour, Keep: 100}); err == nil || !strings.Contains(err.Error(), "is not of stint") {
		t.Errorf("the error is %v", err)
	}
}
