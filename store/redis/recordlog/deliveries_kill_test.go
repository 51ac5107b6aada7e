package recordlog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint/internal/testkit"
	"stint/notify"
)

// Environment variables that make this test binary a node that delivers.
const (
	nodeRedis    = "STINT_TEST_NODE_REDIS"
	nodeReceiver = "STINT_TEST_NODE_RECEIVER"
	nodeSecret   = "STINT_TEST_NODE_SECRET"
)

// shortLease is the lease of these nodes.
const shortLease = 2 * time.Second

func TestMain(m *testing.M) {
	if url := os.Getenv(nodeRedis); url != "" {
		if err := runNode(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runNode delivers until the process is killed.
func runNode(url string) error {
	target, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(target)
	if err != nil {
		return err
	}
	queue, err := OpenDeliveries(url, "shop")
	if err != nil {
		return err
	}
	engine, err := notify.New(notify.Options{
		Receivers: []notify.Receiver{{Name: "shop", URL: os.Getenv(nodeReceiver), SecretFile: os.Getenv(nodeSecret), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}},
		Queue:     queue, Outbox: sharedOutbox{client}, Lease: shortLease,
	})
	if err != nil {
		return err
	}
	engine.Run(context.Background())
	return nil
}

// sharedOutbox is a notify.Outbox in a hash of Redis: events in JSON by their IDs.
type sharedOutbox struct{ client rueidis.Client }

const outboxKey = "outbox"

// Pending implements notify.Outbox.
func (o sharedOutbox) Pending(ctx context.Context, n int) ([]notify.Event, error) {
	all, err := o.client.Do(ctx, o.client.B().Hvals().Key(outboxKey).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	var list []notify.Event
	for _, text := range all[:min(n, len(all))] {
		var e notify.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Done implements notify.Outbox.
func (o sharedOutbox) Done(ctx context.Context, ids []string) error {
	return o.client.Do(ctx, o.client.B().Hdel().Key(outboxKey).Field(ids...).Build()).Error()
}

// arrivals are the bodies that a receiver got, by ID.
type arrivals struct {
	mu     sync.Mutex
	bodies map[string][]string
}

// ServeHTTP implements http.Handler.
func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	time.Sleep(50 * time.Millisecond) // a try has to take a while, so that nodes are killed within one
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.Header.Get("webhook-id")
	a.bodies[id] = append(a.bodies[id], string(body))
	w.WriteHeader(http.StatusNoContent)
}

// len returns how many IDs arrived.
func (a *arrivals) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bodies)
}

// Eight nodes that are killed again and again lose no event. Each arrives with the ID that it had in the outbox, and
// always with the same body.
func TestKilledNodes(t *testing.T) {
	const nodes, events, kills = 8, 300, 24
	server := testkit.StartRedis(t)
	got := &arrivals{bodies: map[string][]string{}}
	receiver := httptest.NewServer(got)
	t.Cleanup(receiver.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
	var running [nodes]*exec.Cmd
	begin := func(i int) {
		running[i] = exec.Command(os.Args[0], "-test.run=^$")
		running[i].Env = append(os.Environ(), nodeRedis+"="+server.URL(), nodeReceiver+"="+receiver.URL, nodeSecret+"="+secret)
		running[i].Stderr = new(bytes.Buffer)
		testkit.Must(t, running[i].Start())
	}
	end := func(i int) {
		_ = running[i].Process.Kill()
		_ = running[i].Wait() // it was killed
		if text := running[i].Stderr.(*bytes.Buffer).String(); text != "" {
			t.Errorf("a node prints %s", text)
		}
	}
	for i := range running {
		begin(i)
	}
	defer func() {
		for i := range running {
			end(i)
		}
	}()
	arrived := 0
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for n := range events {
		event, err := json.Marshal(delivery("shop", n).Event)
		testkit.Must(t, err)
		if answer := server.Do("HSET", outboxKey, fmt.Sprintf("evt_%04d", n), string(event)); answer != "1" {
			t.Fatal(answer)
		}
		if n%(events/kills) == events/kills-1 { // in the middle of some work
			testkit.Until(t, "another event arrives", func() bool { return got.len() > arrived })
			arrived = got.len()
			i := random.IntN(nodes)
			end(i)
			begin(i)
		}
	}
	d := openDeliveries(t, server.URL())
	var status notify.ReceiverStatus
	testkit.Until(t, "all are delivered", func() bool {
		list, err := d.List(t.Context(), notify.Query{State: notify.Failed, Limit: 1})
		testkit.Must(t, err)
		status = list.Receivers["shop"]
		return status.Delivered == events && server.Do("HLEN", outboxKey) == "0"
	})
	if status.Waiting != 0 || status.Failed != 0 {
		t.Errorf("the receiver has %+v", status)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	twice := 0
	for id, bodies := range got.bodies {
		twice += len(bodies) - 1
		if !strings.HasPrefix(id, "evt_") || strings.Join(bodies, "") != strings.Repeat(bodies[0], len(bodies)) {
			t.Errorf("%s: %q", id, bodies)
		}
	}
	if len(got.bodies) != events {
		t.Errorf("%d events arrived, of %d", len(got.bodies), events)
	}
	t.Logf("%d of %d events arrived twice, after %d kills", twice, events, kills)
}
