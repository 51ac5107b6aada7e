package proof_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stint/internal/testkit"
)

var requests = flag.Int("proof.cpu", 4000, "how many requests TestCPU sends to each server; from 100000 on it fails above the goals")

// pairs is how often TestCPU alternates between the servers.
const pairs = 10

// byUser limits each of some users.
const byUser = `
domain: proof
descriptors:
  - key: user
    rate_limit: {requests: 100000, per: 1s, algorithm: token_bucket%s}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
`

// A subject is a server whose processor time is measured.
type subject struct {
	name    string
	address string
	pid     int
	host    string

	each []float64 // microseconds a request, for each pair
}

// The limit costs at most 3 us of CPU a request with memory, 8 us with leased Redis, above bare Caddy in
// the same run. nginx, with limit_req and without, is measured beside them.
func TestCPU(t *testing.T) {
	site := "%s\n\trespond \"" + strings.Repeat("x", 43) + "\""
	redis := testkit.StartRedis(t)
	caddy := func(name string, limits bool, store, rules string) *subject {
		g := startAs(t, site, limits, store, rules)
		return &subject{name: name, address: g.http, pid: g.process.Pid, host: "localhost:" + port(g.http)}
	}
	bare := caddy("bare Caddy", false, "", "")
	memory := caddy("memory", true, "memory", fmt.Sprintf(byUser, ""))
	leased := caddy("leased Redis", true, redis.URL(), fmt.Sprintf(byUser, ", coordination: leased"))
	plain := measuredNginx(t, "nginx", "")
	limited := measuredNginx(t, "nginx limit_req", "limit_req zone=users burst=1000 nodelay;")
	all := []*subject{bare, memory, leased, plain, limited}

	n := *requests / pairs
	for _, s := range all {
		s.send(t, n) // opens pages, warms up
	}
	for i := range pairs {
		for j := range all {
			s := all[(i+j)%len(all)]
			before := s.time(t)
			s.send(t, n)
			s.each = append(s.each, float64((s.time(t)-before).Nanoseconds())/1e3/float64(n))
		}
	}
	report := func(name string, values []float64) float64 {
		slices.Sort(values)
		median := (values[pairs/2-1] + values[pairs/2]) / 2
		t.Logf("%-28s %6.2f us a request, interval %6.2f to %6.2f", name, median, values[1], values[pairs-2])
		return median
	}
	above := func(s, base *subject) float64 {
		values := make([]float64, pairs)
		for i := range values {
			values[i] = s.each[i] - base.each[i]
		}
		return report(s.name+" above "+base.name, values)
	}
	costs := map[string][2]float64{"memory": {above(memory, bare), 3}, "leased Redis": {above(leased, bare), 8}}
	above(limited, plain)
	whole := report(bare.name, slices.Clone(bare.each))
	for _, s := range all[1:] {
		report(s.name, slices.Clone(s.each))
	}
	for name, c := range costs {
		if *requests >= 100_000 && c[0] > c[1] {
			t.Errorf("%s costs %.2f us of CPU a request, the goal is %.0f", name, c[0], c[1])
		}
		if c[0] > whole {
			t.Errorf("%s costs %.2f us of CPU a request, more than the %.2f of bare Caddy", name, c[0], whole)
		}
	}
}

// time returns the processor time of the process, to the nanosecond.
func (s *subject) time(t testing.TB) time.Duration {
	t.Helper()
	var at unix.Timespec
	testkit.Must(t, unix.ClockGettime(int32(^s.pid<<3|2), &at)) // CLOCK_PROCESS_CPUTIME_ID of another process
	return time.Duration(at.Nano())
}

// send sends n requests over four connections.
func (s *subject) send(t testing.TB, n int) {
	t.Helper()
	const connections, users = 4, 100
	var wait sync.WaitGroup
	for k := range connections {
		wait.Go(func() {
			c, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for i := k; i < n; i += connections {
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nX-User: user-%d\r\n\r\n", s.host, i%users)
				answer, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				if answer.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", s.name, answer.Status)
					return
				}
			}
		})
	}
	wait.Wait()
}

// measuredNginx starts nginx as one process that answers 43 bytes from memory.
func measuredNginx(t testing.TB, name, limit string) *subject {
	t.Helper()
	address, pid := runNginx(t, "master_process off;", `limit_req_zone $http_x_user zone=users:10m rate=100000r/s;
server {
    listen 80;
    keepalive_requests 1000000;
    location / {
        `+limit+`
        empty_gif;
    }
}
`)
	return &subject{name: name, address: address, pid: pid, host: "localhost"}
}
