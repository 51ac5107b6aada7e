package examples

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/store/memory"
)

// balancers are the proxies.
var balancers = []balancer{
	{name: "nginx", file: "proxies/sticky/nginx.conf", start: func(t testing.TB, file string) programs.Command {
		args := []string{"-p", t.TempDir(), "-c", file}
		if os.Getuid() == 0 { // other users may not enter that folder
			args = append(args, "-g", "user root;")
		}
		return programs.Command{Path: programs.Binary(t, "nginx"), Args: args}
	}},
	{name: "haproxy", file: "proxies/sticky/haproxy.cfg", start: func(t testing.TB, file string) programs.Command {
		return programs.Command{Path: programs.Binary(t, "haproxy"), Args: []string{"-f", file}, Dir: filepath.Dir(file)}
	}},
	{name: "envoy", file: "proxies/sticky/envoy.yaml", start: startEnvoy, moves: 0.05},
	{name: "envoy with a ring", file: "proxies/sticky/envoy.yaml", start: startEnvoy, moves: 0.4, words: map[string]string{"lb_policy: MAGLEV": "lb_policy: RING_HASH"}},
}

type balancer struct {
	name  string
	file  string
	start func(t testing.TB, file string) programs.Command
	words map[string]string // replacements beside the addresses
	moves float64           // the fraction of clients that may move in addition to those that must
}

// perClient is the limit of each client, less in short mode. The tests end before the limit
// refills.
func perClient() int {
	if testing.Short() {
		return 3
	}
	return 10
}

// node is a server with its own limits.
type node struct {
	*httptest.Server
	id    string
	asked atomic.Int64
}

// cluster has some nodes, and clients that use them only through a proxy.
type cluster struct {
	t     *testing.T
	nodes []*node
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t}
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 24 * time.Hour, Burst: uint32(perClient())})
	for i := range 4 {
		n := &node{id: fmt.Sprint(i + 1)}
		limited := httplimit.Limit(memory.New(memory.Options{Budget: 1 << 20}), limit, httplimit.Options{
			Key:     func(r *http.Request) (string, bool) { key := r.Header.Get("X-Api-Key"); return key, key != "" },
			Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, // the proxies
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.asked.Add(1)
			w.Header().Set("X-Node", n.id)
			limited.ServeHTTP(w, r)
		}))
		t.Cleanup(n.Close)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// proxy starts a proxy in front of all nodes but one (0: of all), and returns its URL.
func (c *cluster) proxy(b balancer, without int) string {
	c.t.Helper()
	// It needs its own address, because Envoy shares a port with other processes that listen on it.
	_, port, _ := strings.Cut(testkit.Address(c.t), ":")
	address := fmt.Sprintf("127.%d.%d.%d:%s", 1+rand.IntN(250), 1+rand.IntN(250), 1+rand.IntN(250), port)
	words := map[string]string{}
	put := func(port int, to string) {
		from := fmt.Sprintf("127.0.0.1:%d", port)
		if strings.HasSuffix(b.file, ".yaml") { // Envoy's file has the port in a separate line
			host, port, _ := strings.Cut(to, ":")
			from, to = strings.Replace(from, ":", ", port_value: ", 1), host+", port_value: "+port
		}
		words[from] = to
	}
	put(8000, address)
	for i, n := range c.nodes {
		put(9001+i, n.Listener.Addr().String())
	}
	maps.Copy(words, b.words)
	file := programs.Adapt(c.t, b.file, words)
	if without > 0 {
		_, port, _ := strings.Cut(c.nodes[without-1].Listener.Addr().String(), ":")
		c.leaveOut(file, port)
	}
	command := b.start(c.t, file)
	command.Ready = programs.Answers("http://" + address)
	programs.Run(c.t, command)
	return "http://" + address
}

// leaveOut removes the line of a node from a file.
func (c *cluster) leaveOut(file, port string) {
	c.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, port) {
			kept.WriteString(line)
		}
	}
	if err := os.WriteFile(file, []byte(kept.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request of a client with a key, and returns the node and the status of the response.
func ask(client *http.Client, url, key string) (node string, status int, err error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.Header.Get("X-Node"), resp.StatusCode, err
}

// askAll sends requests of several clients, with the keys name-0 and so on. It returns the node of
// each client, and how many requests passed. It fails the test if one client reaches two nodes.
func (c *cluster) askAll(url, name string, clients, each int) (at []string, passed int) {
	c.t.Helper()
	client := programs.Client(c.t, "127.0.0.1")
	at = make([]string, clients)
	for i := range at {
		for n := range each {
			node, status, err := ask(client, url, fmt.Sprintf("%s-%d", name, i))
			if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
				c.t.Fatalf("client %d: status %d, %v", i, status, err)
			}
			if n > 0 && node != at[i] {
				c.t.Fatalf("client %d came to node %s and to node %s", i, at[i], node)
			}
			if at[i] = node; status == http.StatusOK {
				passed++
			}
		}
	}
	return at, passed
}

// eachBalancer tests each balancer in front of a cluster of its own.
func eachBalancer(t *testing.T, test func(t *testing.T, b balancer, c *cluster)) {
	t.Helper()
	for _, b := range balancers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, b, newCluster(t))
		})
	}
}

// Each client always reaches the same node. When a node leaves or joins, only its own clients move,
// and only they have their limit once more; a client that moves back has nothing more.
func TestStickyJoinAndLeave(t *testing.T) {
	clients := 200
	if testing.Short() {
		clients = 60
	}
	eachBalancer(t, func(t *testing.T, b balancer, c *cluster) {
		four, three := c.proxy(b, 0), c.proxy(b, 2)
		at, passed := c.askAll(four, "early", clients, perClient()+1)
		if passed != clients*perClient() {
			t.Errorf("%d passed, want %d for each of %d", passed, perClient(), clients)
		}
		share := map[string]int{}
		for _, node := range at {
			share[node]++
		}
		for _, n := range c.nodes {
			if part := float64(share[n.id]) / float64(clients); part < 0.08 || part > 0.5 {
				t.Errorf("node %s has %d of %d clients", n.id, share[n.id], clients)
			}
		}
		c.change(b, "early", "leaves", at, three)
		if back, again := c.askAll(four, "early", clients, perClient()+1); again != 0 || !slices.Equal(at, back) {
			t.Errorf("node 2 comes back: %d more passed, clients at %v after %v", again, back, at)
		}
		at, _ = c.askAll(three, "late", clients, perClient()+1)
		c.change(b, "late", "joins", at, four)
		t.Logf("%s: the shares of the nodes are %v of %d", b.name, share, clients)
	})
}

// change sends requests of clients with used up limits after node 2 has left or joined, and checks
// which clients have moved and how many of their requests passed.
func (c *cluster) change(b balancer, name, what string, at []string, url string) {
	c.t.Helper()
	now, extra := c.askAll(url, name, len(at), perClient()+1)
	moved, others, stayed := 0, 0, 0
	for i := range at {
		switch {
		case at[i] == "2" || now[i] == "2":
			moved++
		case now[i] == at[i]:
			stayed++
		default:
			others++
		}
	}
	if slices.Contains(now, "2") == (what == "leaves") || moved == 0 || float64(others) > b.moves*float64(len(at)) {
		c.t.Errorf("node 2 %s: %d clients moved, and %d between other nodes", what, moved, others)
	}
	if extra != (moved+others)*perClient() {
		c.t.Errorf("node 2 %s: %d more passed, want %d for each of the %d who moved", what, extra, perClient(), moved+others)
	}
	c.t.Logf("%s: node 2 %s: %.0f%% of the clients move, %.0f%% of those that it does not concern; %.0f%% more pass than before, once",
		b.name, what, percent(moved+others, len(at)), percent(others, others+stayed), percent(extra, len(at)*perClient()))
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// After a node dies, its clients reach other nodes, and no other client moves.
func TestStickyNodeDies(t *testing.T) {
	eachBalancer(t, func(t *testing.T, b balancer, c *cluster) {
		url := c.proxy(b, 0)
		const clients = 100
		at, _ := c.askAll(url, "client", clients, 1)
		dead := c.nodes[1]
		dead.Close()
		client := programs.Client(t, "127.0.0.1")
		for i := range at {
			programs.Until(t, fmt.Sprintf("an answer for client %d", i), func() bool {
				node, status, err := ask(client, url, fmt.Sprintf("client-%d", i))
				if err != nil || status != http.StatusOK || node == dead.id {
					if at[i] != dead.id && status != http.StatusOK {
						t.Fatalf("client %d of node %s: status %d, %v", i, at[i], status, err)
					}
					return false
				}
				if at[i] != dead.id && node != at[i] && b.moves == 0 {
					t.Errorf("client %d of node %s came to node %s", i, at[i], node)
				}
				return true
			})
		}
	})
}

// A client without a key is identified by its address, and reaches one node too.
func TestStickyAddresses(t *testing.T) {
	eachBalancer(t, func(t *testing.T, b balancer, c *cluster) {
		url := c.proxy(b, 0)
		nodes := map[string]bool{}
		for i := range 32 {
			client := programs.Client(t, fmt.Sprintf("127.0.%d.%d", 3*i, 7*i+2))
			first := ""
			for range 3 {
				node, status, err := ask(client, url, "")
				if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests || first != "" && node != first {
					t.Fatalf("address %d: node %q after %q, status %d, %v", i, node, first, status, err)
				}
				first = node
			}
			nodes[first] = true
		}
		if len(nodes) < 3 {
			t.Errorf("32 addresses came to nodes %v alone", nodes)
		}
	})
}

// A client that floods reaches one node and its limit there, and other clients keep their limits.
func TestStickyHotClient(t *testing.T) {
	const callers = 16
	each := 200
	if testing.Short() {
		each = 40
	}
	eachBalancer(t, func(t *testing.T, b balancer, c *cluster) {
		url := c.proxy(b, 0)
		for _, n := range c.nodes {
			n.asked.Store(0)
		}
		client := programs.Client(t, "127.0.0.1")
		client.Transport.(*http.Transport).MaxIdleConnsPerHost = callers
		var passed atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for range callers {
			wg.Go(func() {
				for range each {
					_, status, err := ask(client, url, "hot")
					if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
						t.Errorf("status %d, %v", status, err)
						return
					}
					if status == http.StatusOK {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		busy := 0
		for _, n := range c.nodes {
			if asked := n.asked.Load(); asked == int64(callers*each) {
				busy++
			} else if asked != 0 {
				t.Errorf("node %s was asked %d times", n.id, asked)
			}
		}
		if passed.Load() != int64(perClient()) || busy != 1 {
			t.Errorf("%d passed, want %d; %d nodes had all", passed.Load(), perClient(), busy)
		}
		if _, others := c.askAll(url, "other", 40, perClient()); others != 40*perClient() {
			t.Errorf("%d of others passed, want %d", others, 40*perClient())
		}
		t.Logf("%s: %d requests of one client in %v (%.0f/s), %d passed", b.name, callers*each, took.Round(time.Millisecond), float64(callers*each)/took.Seconds(), passed.Load())
	})
}
