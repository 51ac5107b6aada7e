package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit/programs"
)

// drainRules lets a thousand calls wait for up to a second.
const drainRules = `domain: api
descriptors:
  - key: queue
    rate_limit: {requests: 1000, per: 1s, algorithm: leaky_bucket, burst: 2000}
`

// TestDrainLosesNothing: a thousand calls wait during a SIGTERM, some of them in JSON over HTTP.
// All of them get an answer, and the process ends with status 0.
func TestDrainLosesNothing(t *testing.T) {
	const calls, connections, jsonEvery = 1000, 4, 20
	n := startNode(t, drainRules, "--resp=")
	clients := make([]*programs.RLSClient, connections)
	for i := range clients {
		clients[i] = programs.DialRLS(t, n.grpc, nil)
		if healthy, err := clients[i].Healthy(t.Context(), ""); !healthy || err != nil {
			t.Fatalf("healthy: %v, error %v", healthy, err)
		}
	}
	var group sync.WaitGroup
	failed := make(chan error, calls)
	for i := range calls {
		group.Go(func() {
			if i%jsonEvery == 0 {
				if err := n.askJSON(); err != nil {
					failed <- err
				}
				return
			}
			answer, err := clients[i%connections].Ask(context.Background(), "api", "queue=x")
			if err != nil || answer.Over {
				failed <- fmt.Errorf("call %d: %+v: %w", i, answer, err)
			}
		})
	}
	n.awaitMetric(t, `stint_requests_total{verdict="allowed"}`, calls)
	n.ended = true
	if err := n.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	select {
	case err := <-n.process.ended:
		if err != nil {
			t.Errorf("the end: %v\n%s", err, n.log())
		}
	case <-time.After(patience):
		t.Errorf("no end:\n%s", n.log())
	}
}

// askJSON sends a request for the queue to /json.
func (n *node) askJSON() error {
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "queue", "value": "x"}]}]}`
	resp, err := n.client.Post(n.http+"/json", "application/json", strings.NewReader(question))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("/json: status %d: %s", resp.StatusCode, body)
	}
	return err
}

// awaitMetric waits until a metric has a value.
func (n *node) awaitMetric(t *testing.T, name string, want float64) {
	t.Helper()
	for deadline := time.Now().Add(patience); n.metric(t, name) != want; {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v, want %v", name, n.metric(t, name), want)
		}
	}
}
