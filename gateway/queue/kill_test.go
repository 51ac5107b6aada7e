package queue_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/gateway/queue"
	"stint/gateway/queue/file"
	"stint/gateway/queue/stream"
	"stint/httplimit"
	"stint/internal/testkit"
)

// Environment variables that make this test binary a gateway.
const (
	gatewayStorage  = "STINT_TEST_GATEWAY_STORAGE"
	gatewayUpstream = "STINT_TEST_GATEWAY_UPSTREAM"
	gatewayRoom     = "STINT_TEST_GATEWAY_ROOM" // the size of the largest file
)

// shortLease is the lease of the gateways in these tests.
const shortLease = time.Second

func TestMain(m *testing.M) {
	if storage := os.Getenv(gatewayStorage); storage != "" {
		if err := gateway(storage, os.Getenv(gatewayUpstream)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func openStorage(name string) (queue.Storage, error) {
	if strings.HasPrefix(name, "redis://") {
		s, err := stream.Open(stream.Options{URL: name, Timeout: 2 * time.Second})
		if err != nil {
			return queue.Storage{}, err
		}
		return s.Queue(), nil
	}
	s, err := file.Open(name)
	if err != nil {
		return queue.Storage{}, err
	}
	return s.Queue(), nil
}

type openGate struct{}

func (openGate) Ask(context.Context, *queue.Record) (queue.Admission, error) {
	return queue.Admission{}, nil
}

// gateway queues each request that it gets and sends it to the upstream, until it is killed or its standard
// input ends.
func gateway(name, upstream string) error {
	if room, err := strconv.ParseUint(os.Getenv(gatewayRoom), 10, 64); err == nil {
		if err := testkit.CapFiles(room); err != nil {
			return err
		}
	}
	storage, err := openStorage(name)
	if err != nil {
		return err
	}
	defer storage.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	sends := 4
	if upstream == "" {
		sends = 0
	}
	worker := queue.NewWorker(queue.WorkerOptions{
		Storage: storage, Gate: openGate{}, Sends: sends, Lease: shortLease, Poll: 20 * time.Millisecond, Log: log,
		Deliver: func(_ context.Context, _ *queue.Record, r *http.Request) (*http.Response, error) {
			r.URL.Host = upstream
			return http.DefaultTransport.RoundTrip(r)
		},
	})
	q := queue.New(queue.Options{Storage: storage, Stored: worker.Wake, Log: log})
	worker.Start()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := strconv.Atoi(r.Header.Get("X-Line"))
		e := excess(byte(key), "")
		e.Settings.Places, e.Settings.Tries = 100_000, 1000
		switch err := q.Accept(w, r, e); {
		case errors.Is(err, httplimit.ErrQueueFull):
			w.WriteHeader(e.Settings.Full)
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go server.Serve(l) //nolint:errcheck // it ends with the process
	fmt.Println("listening on", l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Close()
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	worker.Stop(grace)
	return err
}

// process is a gateway in a process of its own.
type process struct {
	cmd  *exec.Cmd
	in   io.Closer
	addr string
	log  *bytes.Buffer
}

// start starts a gateway, and returns when it listens.
func start(t *testing.T, storage, upstream string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), log: new(bytes.Buffer)}
	p.cmd.Env = append(append(os.Environ(), gatewayStorage+"="+storage, gatewayUpstream+"="+upstream), env...)
	p.cmd.Stderr = p.log
	in, err := p.cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := p.cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, p.cmd.Start())
	p.in = in
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		_ = p.cmd.Wait() // its output has the reason
		t.Fatalf("the gateway did not start: %q %v\n%s", line, err, p.log)
	}
	p.addr = addr
	return p
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // it was killed
}

// stop ends the process in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	testkit.Must(t, p.in.Close())
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with %v\n%s", err, p.log)
	}
}

// upstream is a server that records what it gets.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	bodies   map[string]string // body by Idempotency-Key
	times    map[string]int    // requests by Idempotency-Key
	now      map[string]int    // requests that are being served
	together []string          // keys of requests that were served at the same time
	first    []string          // bodies in the order in which they came first
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{bodies: map[string]string{}, times: map[string]int{}, now: map[string]int{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// ServeHTTP answers some requests with 503.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway was killed
	}
	key := r.Header.Get("Idempotency-Key")
	u.mu.Lock()
	if known, has := u.bodies[key]; has && known != string(body) {
		u.together = append(u.together, "other body of "+key)
	}
	u.bodies[key] = string(body)
	u.times[key]++
	if u.now[key]++; u.now[key] > 1 {
		u.together = append(u.together, key)
	}
	u.mu.Unlock()
	testkit.Pause(time.Duration(rand.IntN(3000)) * time.Microsecond)
	u.mu.Lock()
	u.now[key]--
	if u.times[key] == 1 {
		u.first = append(u.first, string(body))
	}
	u.mu.Unlock()
	if rand.IntN(300) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// clients send requests to the gateways of a test and remember those that were accepted.
type clients struct {
	mu       sync.Mutex
	addrs    []string
	accepted map[string]string // ID by body
	other    map[int]int       // answers that are not 202, by status; 0 for none
}

// run sends requests until ctx is done.
func (c *clients) run(ctx context.Context, id int) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 0; ctx.Err() == nil && n < 1_000_000; n++ {
		c.mu.Lock()
		addr := c.addrs[rand.IntN(len(c.addrs))]
		c.mu.Unlock()
		body := fmt.Sprintf("order %d of client %d", n, id)
		status, record := c.send(client, addr, id, body)
		c.mu.Lock()
		if status == http.StatusAccepted {
			c.accepted[body] = record
		} else {
			c.other[status]++
		}
		c.mu.Unlock()
		if status == 0 {
			testkit.Pause(time.Millisecond)
		}
	}
}

func (c *clients) send(client *http.Client, addr string, line int, body string) (status int, record string) {
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/orders", strings.NewReader(body))
	if err != nil {
		return 0, ""
	}
	r.Header.Set("X-Line", strconv.Itoa(line))
	response, err := client.Do(r)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	return response.StatusCode, strings.TrimPrefix(response.Header.Get("Location"), queue.StatusPath)
}

// missing returns how many accepted requests the upstream did not get.
func (c *clients) missing(u *upstream) (n int, one string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for body, id := range c.accepted {
		if u.bodies[id] != body {
			n++
			one = id
		}
	}
	return n, one
}

// check waits until the upstream has all accepted requests.
func (c *clients) check(t *testing.T, u *upstream, processes ...*process) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		n, one := c.missing(u)
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			for _, p := range processes {
				t.Log(p.log)
			}
			t.Fatalf("%d of %d accepted requests did not arrive, for example %s", n, len(c.accepted), one)
		}
		testkit.Pause(50 * time.Millisecond)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	twice := 0
	for _, n := range u.times {
		if n > 1 {
			twice++
		}
	}
	if len(u.together) > 0 {
		t.Errorf("sent at the same time, or with another body: %v", u.together)
	}
	t.Logf("%d accepted, %d arrived, %d of them several times; other answers: %v", len(c.accepted), len(u.times), twice, c.other)
	last := map[int]int{}
	for _, body := range u.first {
		var n, line int
		if _, err := fmt.Sscanf(body, "order %d of client %d", &n, &line); err != nil {
			t.Fatal(err)
		}
		if c.accepted[body] != "" && n < last[line] {
			t.Errorf("%s came after number %d", body, last[line])
		}
		last[line] = max(n, last[line])
	}
	if len(c.accepted) < 20 {
		t.Errorf("only %d requests were accepted: the test shows nothing", len(c.accepted))
	}
}

// traffic runs clients while rounds runs, and then waits until all accepted requests have arrived.
func traffic(t *testing.T, addrs []string, rounds func(c *clients)) *clients {
	t.Helper()
	c := &clients{addrs: addrs, accepted: map[string]string{}, other: map[int]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() { c.run(ctx, id) })
	}
	rounds(c)
	cancel()
	wg.Wait()
	return c
}

// rounds is how often a process is killed.
func rounds() int {
	if testing.Short() {
		return 5
	}
	return 15
}

// A gateway that is killed at any time loses no accepted request.
func TestKillGateway(t *testing.T) {
	u := newUpstream(t)
	path := filepath.Join(t.TempDir(), "queue")
	host := u.Listener.Addr().String()
	p := start(t, path, host)
	c := traffic(t, []string{p.addr}, func(c *clients) {
		for range rounds() {
			testkit.Pause(time.Duration(rand.IntN(300_000)) * time.Microsecond)
			p.kill()
			p = start(t, path, host)
			c.mu.Lock()
			c.addrs = []string{p.addr}
			c.mu.Unlock()
		}
	})
	c.check(t, u, p)
	p.stop(t)
}

// Of two gateways on one Redis one is killed again and again. No accepted request is lost, and none is sent
// by both at the same time.
func TestKillOneOfTwo(t *testing.T) {
	u, server := newUpstream(t), testkit.StartRedis(t)
	host := u.Listener.Addr().String()
	first, second := start(t, server.URL(), host), start(t, server.URL(), host)
	c := traffic(t, []string{first.addr, second.addr}, func(c *clients) {
		for range rounds() {
			testkit.Pause(time.Duration(rand.IntN(300_000)) * time.Microsecond)
			second.kill()
			second = start(t, server.URL(), host)
			c.mu.Lock()
			c.addrs = []string{first.addr, second.addr}
			c.mu.Unlock()
		}
	})
	c.check(t, u, first, second)
	first.stop(t)
	second.stop(t)
}

// A Redis that syncs each write and is killed at any time loses no accepted request.
func TestKillRedis(t *testing.T) {
	u := newUpstream(t)
	server := testkit.StartRedis(t, "--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")
	p := start(t, server.URL(), u.Listener.Addr().String())
	c := traffic(t, []string{p.addr}, func(*clients) {
		for range rounds() {
			testkit.Pause(time.Duration(rand.IntN(300_000)) * time.Microsecond)
			server.Restart()
		}
		testkit.Pause(200 * time.Millisecond)
	})
	c.check(t, u, p)
	p.stop(t)
}

// If the disk is full, requests are denied, and those that were accepted stay.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	p := start(t, path, "", gatewayRoom+"=2000000")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	c, accepted, full := &clients{}, []string{}, 0
	for n := range 200 {
		status, id := c.send(client, p.addr, n, strings.Repeat("x", 50_000))
		switch {
		case status == http.StatusAccepted:
			accepted = append(accepted, id)
		case status == http.StatusTooManyRequests:
			full++
		default:
			t.Fatalf("answer %d\n%s", status, p.log)
		}
	}
	p.kill()
	if len(accepted) < 5 || full < 100 || !strings.Contains(p.log.String(), "no room on the disk") {
		t.Errorf("%d accepted, %d full\n%s", len(accepted), full, p.log)
	}
	s, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range accepted {
		if e, err := s.Get(t.Context(), id); err != nil || e.State != queue.Waiting {
			t.Errorf("accepted record %s: %+v, %v", id, e, err)
		}
	}
}
