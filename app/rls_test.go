package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// ratelimit is the name of the gRPC service.
const ratelimit = "envoy.service.ratelimit.v3.RateLimitService"

// startRLS runs a service with rules on a free port of grpc.
func startRLS(t *testing.T, rules string, change func(*settings.Config)) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rules)
	return start(t, func(c *settings.Config) {
		c.Rules, c.GRPC = []string{file}, "127.0.0.1:0"
		change(c)
	})
}

// The service answers Envoy's protocol from the same counts as all others.
func TestRLS(t *testing.T) {
	s := startRLS(t, rulesOf(3), func(*settings.Config) {})
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	s.ask(t, "user=x")
	for i, want := range []programs.RLSStatus{{Limit: 3, Remaining: 1}, {Limit: 3}, {Limit: 3, Over: true}} {
		got, err := c.Ask(t.Context(), "api", "user=x")
		testkit.Must(t, err)
		status := got.Statuses[0]
		if got.Over != want.Over || status.Over != want.Over || status.Limit != want.Limit || status.Remaining != want.Remaining || status.Reset <= 0 {
			t.Errorf("call %d: %+v, want %+v", i, got, want)
		}
	}
	if got := s.metric(`stint_listener_open{listener="grpc"}`); got != 1 {
		t.Errorf("the metric of the listener shows %v", got)
	}
	_, err := c.Ask(t.Context(), "", "user=x")
	if programs.StatusCode(err) != 2 || programs.StatusMessage(err) != "rate limit domain must not be empty" {
		t.Errorf("an empty domain: %v", err)
	}
	for _, name := range []string{"", "ratelimit", ratelimit} {
		if healthy, err := c.Healthy(t.Context(), name); !healthy || err != nil {
			t.Errorf("%q is healthy: %v, error %v", name, healthy, err)
		}
	}
}

// Reflection shows the protocol, unless it is switched off.
func TestRLSReflection(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := startRLS(t, rulesOf(3), func(c *settings.Config) { c.RLS.Reflection = on })
		names, file, err := programs.DialRLS(t, s.Addr("grpc"), nil).Services(t.Context(), ratelimit)
		if shown := err == nil && slices.Contains(names, ratelimit) && strings.Contains(string(file), "ShouldRateLimit"); shown != on {
			t.Errorf("reflection %v: %q, error %v", on, names, err)
		}
	}
}

// A request that is too large is an error for its caller alone.
func TestRLSLargeMessage(t *testing.T) {
	s := startRLS(t, rulesOf(3), func(c *settings.Config) { c.RLS.MaxMessage = 2 << 10 })
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	if _, err := c.Ask(t.Context(), "api", "user="+strings.Repeat("x", 4<<10)); programs.StatusCode(err) != 8 {
		t.Errorf("error %v, want RESOURCE_EXHAUSTED", err)
	}
	if _, err := c.Ask(t.Context(), "api", "user=x"); err != nil {
		t.Error(err)
	}
}

// On a Unix socket the file of a process that is gone is replaced, and that of a running one is
// not.
func TestRLSUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testkit.Must(t, err)
	left.SetUnlinkOnClose(false)
	testkit.Must(t, left.Close())
	s := startRLS(t, rulesOf(3), func(c *settings.Config) { c.GRPC = "unix:" + path })
	if got := s.Addr("grpc"); got != "unix:"+path {
		t.Errorf("grpc is at %s", got)
	}
	if _, err := programs.DialRLS(t, s.Addr("grpc"), nil).Ask(t.Context(), "api", "user=x"); err != nil {
		t.Error(err)
	}
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.Output = "", "", "unix:"+path, s.log
	second, err := New(config)
	testkit.Must(t, err)
	want := "grpc: cannot listen on unix:" + path + ": another process answers there"
	if err := second.Start(t.Context()); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	s.Stop(context.Background())
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket was left behind")
	}
}

// certFiles writes into a folder a certificate that an authority signs for a name.
func certFiles(t *testing.T, dir string, ca *testkit.Authority, name string) {
	t.Helper()
	cert, key := ca.Sign(t, time.Hour, name)
	write(t, filepath.Join(dir, "ca.pem"), string(ca.PEM()))
	write(t, filepath.Join(dir, "key.pem"), string(key))
	write(t, filepath.Join(dir, "cert.pem"), string(cert))
}

// Clients need a certificate of the right authority and name; a renewed server certificate is used
// without a restart, and an invalid file changes nothing.
func TestRLSTLS(t *testing.T) {
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	certFiles(t, dir, ca, "first.test")
	s := startRLS(t, rulesOf(1000), func(c *settings.Config) {
		c.RLS.TLS.Cert, c.RLS.TLS.Key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		c.RLS.TLS.ClientCA, c.RLS.TLS.ClientName = filepath.Join(dir, "ca.pem"), "envoy.test"
	})
	ask := func(server string, clients ...tls.Certificate) error {
		config := &tls.Config{RootCAs: ca.Pool(), ServerName: server, Certificates: clients}
		_, err := programs.DialRLS(t, s.Addr("grpc"), config).Ask(t.Context(), "api", "user=x")
		return err
	}
	envoy := ca.Pair(t, "envoy.test")
	if err := ask("first.test", envoy); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"no certificate": ask("first.test"), "another name": ask("first.test", ca.Pair(t, "other.test")),
		"not encrypted": func() error {
			_, err := programs.DialRLS(t, s.Addr("grpc"), nil).Ask(t.Context(), "api", "user=x")
			return err
		}(),
	} {
		if programs.StatusCode(err) != 14 {
			t.Errorf("%s: error %v, want UNAVAILABLE", name, err)
		}
	}
	at := s.log.size()
	write(t, filepath.Join(dir, "cert.pem"), "rubbish")
	s.log.await(t, at, "certificates refused: keeping the old ones", "cert.pem")
	if err := ask("first.test", envoy); err != nil {
		t.Errorf("after rubbish: %v", err)
	}
	at = s.log.size()
	certFiles(t, dir, ca, "second.test")
	s.log.await(t, at, "certificates loaded", "listener=grpc")
	if err := ask("second.test", envoy); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
	if left := s.metric(`stint_certificate_expiry_timestamp_seconds{listener="grpc"}`) - float64(time.Now().Unix()); left < 3500 || left > 3600 {
		t.Errorf("the metric says the certificate is good for %v s", left)
	}
}

// awaitMetric waits until a metric has a value.
func (s *service) awaitMetric(name string, want float64) {
	s.t.Helper()
	for deadline := time.Now().Add(testTimeout); s.metric(name) != want; {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s is %v, want %v", name, s.metric(name), want)
		}
	}
}

// queueRules delay each request of an address a hundredth of a second longer than the one before.
const queueRules = `domain: api
descriptors:
  - key: queue
    rate_limit: {requests: 100, per: 1s, algorithm: leaky_bucket, burst: 200}
  - key: slow
    rate_limit: {requests: 1, per: 1h, algorithm: leaky_bucket, burst: 3}
`

// Delayed calls are answered when the service ends; one that takes longer than the timeout is cut;
// connections without calls do not delay the end.
func TestRLSDrain(t *testing.T) {
	t.Parallel()
	s := startRLS(t, queueRules, func(c *settings.Config) { c.DrainTimeout = testTimeout })
	silent, err := net.Dial("tcp", s.Addr("grpc"))
	testkit.Must(t, err)
	defer silent.Close()
	idle := programs.DialRLS(t, s.Addr("grpc"), nil)
	if healthy, err := idle.Healthy(t.Context(), ""); !healthy || err != nil {
		t.Fatalf("healthy: %v, error %v", healthy, err)
	}
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	const calls = 100
	var group sync.WaitGroup
	failed := make(chan error, calls)
	for range calls {
		group.Go(func() {
			if a, err := c.Ask(context.Background(), "api", "queue=x"); err != nil || a.Over {
				failed <- fmt.Errorf("%+v: %w", a, err)
			}
		})
	}
	s.awaitMetric(`stint_requests_total{verdict="allowed"}`, calls)
	s.Stop(context.Background())
	group.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if _, err := idle.Healthy(t.Context(), ""); programs.StatusCode(err) != 14 {
		t.Errorf("after the end: error %v, want UNAVAILABLE", err)
	}
}

// A call in flight beyond the drain timeout is cut, and its units are given back.
func TestRLSDrainCuts(t *testing.T) {
	s := startRLS(t, queueRules, func(c *settings.Config) { c.DrainTimeout = 100 * time.Millisecond })
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	if _, err := c.Ask(t.Context(), "api", "slow=x"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Ask(context.Background(), "api", "slow=x")
		failed <- err
	}()
	s.awaitMetric(`stint_requests_total{verdict="allowed"}`, 2)
	s.Stop(context.Background())
	if err := <-failed; programs.StatusCode(err) != 14 {
		t.Errorf("error %v, want UNAVAILABLE", err)
	}
	s.log.await(t, 0, "calls in flight were cut", "listener=grpc")
}
