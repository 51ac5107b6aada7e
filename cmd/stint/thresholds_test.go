package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"stint/internal/testkit"
)

// announcing has two thresholds of a window of 366 days, which ends in February of 2027.
const announcing = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 10, per: 366d, on_store_failure: deny, notify: [80%, 100%]}
`

// hooks are the webhooks that arrived: the subjects and thresholds, by ID.
type hooks struct {
	mu    sync.Mutex
	of    map[string]string
	twice int
	wrong []string
}

// ServeHTTP implements http.Handler.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Data struct {
			Subject   string
			Threshold int
		}
	}
	text, _ := io.ReadAll(r.Body)
	err := json.Unmarshal(text, &body)
	id, what := r.Header.Get("webhook-id"), fmt.Sprint(body.Data.Subject, " ", body.Data.Threshold)
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.of[id]
	if known {
		h.twice++
	}
	if err != nil || known && before != what {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: %s after %s", id, text, before))
	}
	h.of[id] = what
	w.WriteHeader(http.StatusNoContent)
}

// len returns how many IDs arrived.
func (h *hooks) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.of)
}

// fleet are nodes of which some are killed while others ask them.
type fleet struct {
	mu    sync.Mutex
	nodes []*node
}

// any returns a random node.
func (f *fleet) any() *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[rand.IntN(len(f.nodes))]
}

// replace kills a random node, and puts a new one in its place.
func (f *fleet) replace(begin func() *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := rand.IntN(len(f.nodes))
	f.nodes[i].ended = true
	_ = f.nodes[i].process.cmd.Process.Kill()
	<-f.nodes[i].process.ended //nolint:errcheck // it was killed
	f.nodes[i] = begin()
}

// Eight nodes that share a Redis are killed again and again. Each threshold of each user arrives, with one ID.
func TestThresholdsOfKilledNodes(t *testing.T) {
	testkit.Long(t) // what a killed node had claimed arrives half a minute later
	const users, kills, callers = 100, 12, 4
	got := &hooks{of: map[string]string{}}
	receiver := httptest.NewServer(got)
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "stint.yaml")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
	testkit.Must(t, os.WriteFile(config, fmt.Appendf(nil, "webhooks:\n  - {name: shop, url: %q, secret_file: secret, allow_private: 127.0.0.1}\n", receiver.URL), 0o600))
	url := testkit.StartRedis(t).URL()
	begin := func() *node { return startNode(t, announcing, "--store="+url, unhurried, "--config="+config) }
	f := new(fleet)
	for range nodeCount {
		f.nodes = append(f.nodes, begin())
	}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := caller; n < users*12; n += callers {
				user := fmt.Sprint("u", n%users)
				for { // the node may be killed before it answers
					if _, err := f.any().ask(t.Context(), "user", user); err == nil || t.Context().Err() != nil {
						break
					}
				}
			}
		})
	}
	for range kills {
		f.replace(begin)
	}
	all.Wait()
	testkit.Until(t, "all thresholds arrive", func() bool { return got.len() >= 2*users })
	got.mu.Lock()
	defer got.mu.Unlock()
	ids := map[string]int{}
	for _, what := range got.of {
		ids[what]++
	}
	for n := range users {
		for _, threshold := range []int{80, 100} {
			if what := fmt.Sprintf("user=u%d %d", n, threshold); ids[what] != 1 {
				t.Errorf("%s has %d IDs", what, ids[what])
			}
		}
	}
	if len(got.wrong) > 0 {
		t.Errorf("another event with the same ID: %q", got.wrong)
	}
	t.Logf("%d of %d events arrived twice, after %d kills", got.twice, 2*users, kills)
}
