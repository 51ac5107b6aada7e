package examples

import (
	"bufio"
	"context"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/loadtest"
)

// The measurements of the documents use a higher value.
var askedEach = flag.Int("deploy.each", 300, "how often each caller asks in TestDeployShapes; a fifth of it in short mode")

const (
	// machines is how many servers each shape has.
	machines = 3

	// burst and rate are the numbers of the clients' limit in both rules.yaml.
	burst, rate = 1000, 1000

	// distance is the delay between two machines, in one direction.
	distance = time.Millisecond
)

// shape is one way to deploy Stint among servers.
type shape struct {
	name, file string
	redis      bool     // counts are in a Redis
	flags      []string // added to the flags of the file, or used without a file
	beside     bool     // there is one Stint on the machine of each server
}

var shapes = []shape{
	{name: "central", file: "deploy/central/compose.yaml", redis: true},
	{name: "central, counts in memory", flags: []string{"--rules=deploy/central/rules.yaml", "--trusted-proxies=127.0.0.1"}},
	{name: "beside, leased", file: "deploy/beside/compose.yaml", redis: true, beside: true},
}

// site is a running shape.
type site struct {
	stints []*programs.Service
	nodes  []string             // the Stint that each server asks
	store  *testkit.RedisServer // nil: none
	leased bool
}

// up starts a shape. Connections between machines go through a relay.
func (s shape) up(t *testing.T) site {
	t.Helper()
	at := site{leased: s.beside}
	if s.redis {
		at.store = startRedis(t, s.file)
		at.stints = startCompose(t, s.file, relay(t, at.store.Addr))
	} else {
		at.stints = []*programs.Service{programs.Stint(t, s.flags...)}
	}
	for i := range machines {
		address := at.stints[i%len(at.stints)].HTTP
		if !s.beside {
			address = relay(t, address)
		}
		at.nodes = append(at.nodes, "http://"+address)
	}
	return at
}

// metric returns the sum of a metric over all Stint nodes.
func (s site) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, stint := range s.stints {
		resp, err := http.Get("http://" + stint.Admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
		resp.Body.Close()
	}
	return sum
}

// cost is the total cost of decisions so far.
type cost struct {
	decided, waited, scripts float64 // decisions, decisions that waited for Redis, and scripts that Redis ran
	stint, redis             float64 // processor time, in microseconds
}

// spent returns the cost of a site so far.
func (s site) spent(t *testing.T) cost {
	t.Helper()
	c := cost{stint: 1e6 * s.metric(t, "process_cpu_seconds_total")}
	c.decided = s.metric(t, `stint_requests_total{verdict="allowed"}`) + s.metric(t, `stint_requests_total{verdict="denied"}`)
	if s.store == nil {
		return c
	}
	if c.waited = c.decided - s.metric(t, "stint_refusals_answered_total"); s.leased {
		c.waited = s.metric(t, "stint_lease_store_decisions_total")
	}
	scripts, err := loadtest.StoreCalls(s.store.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c.scripts, c.redis = float64(scripts), float64(s.store.CPU().Microseconds())
	return c
}

// each returns the cost of one decision since an earlier cost.
func (c cost) each(since cost) cost {
	n := c.decided - since.decided
	return cost{n, (c.waited - since.waited) / n, (c.scripts - since.scripts) / n, (c.stint - since.stint) / n, (c.redis - since.redis) / n}
}

// asked is the result of a load, with the cost of each decision.
type asked struct {
	loadtest.FleetRecord
	cost
}

// ask puts a load on all servers of a site.
func (s site) ask(t *testing.T, units int, clients ...string) asked {
	t.Helper()
	const callers, pause = 4, 5 * time.Millisecond
	plan := loadtest.Fleet{Nodes: s.nodes, Callers: callers, Each: *askedEach, Pause: pause}
	if testing.Short() {
		plan.Each /= 5
	}
	for _, client := range clients {
		plan.Questions = append(plan.Questions, loadtest.Question("api", "remote_address", client, units))
	}
	before := s.spent(t)
	record, err := plan.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all := callers * plan.Each * machines; record.Lost > 0 || len(record.Answers) != all {
		t.Fatalf("%d answers and %d questions without one, of %d", len(record.Answers), record.Lost, all)
	}
	if degraded := record.Of(func(a *loadtest.FleetAnswer) bool { return a.Degraded }); len(degraded) > 0 {
		t.Errorf("%d answers without the store", len(degraded))
	}
	return asked{record, s.spent(t).each(before)}
}

// Both shapes keep the limit, by the record of the callers. With a Stint on each server Redis gets
// far fewer requests, and few decisions wait for it.
func TestDeployShapes(t *testing.T) {
	within := map[string]asked{}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			at := s.up(t)
			// Three clients, each with a third of the requests, which is below its rate.
			calm := at.ask(t, 1, "192.0.2.1", "192.0.2.2", "192.0.2.3")
			if passed := loadtest.AllowedOf(calm.Answers); passed != len(calm.Answers) {
				t.Errorf("%d of %d passed, of clients within their limits", passed, len(calm.Answers))
			}
			within[s.name] = calm
			calm.log(t, s.name)
			// One client that sends more than its limit, a hundredth of the burst in each request.
			greedy := at.ask(t, burst/100, "198.51.100.9")
			worst, passed := loadtest.WorstOf(greedy.Answers, 100, rate/burst*100), loadtest.AllowedOf(greedy.Answers)
			if worst.Over() > 0.5 { // times are rounded to microseconds, which are a fraction of a unit
				t.Errorf("in %v %d passed, at most %.1f may", worst.Length, worst.Passed, worst.May)
			}
			if passed < 50 || passed == len(greedy.Answers) {
				t.Errorf("%d of %d passed, of a client that takes all it gets", passed, len(greedy.Answers))
			}
			greedy.log(t, "  above the limit")
			t.Logf("%-26s %d of them passed in %v, where %.0f may; the worst window: %d in %v, where %.1f may", "", passed,
				greedy.Took.Round(time.Millisecond), 100+100*greedy.Took.Seconds(), worst.Passed, worst.Length.Round(time.Millisecond), worst.May)
		})
	}
	if central, ran := within["central"]; ran && central.waited != 1 {
		t.Errorf("central: %.3f of the decisions waited for Redis, want all", central.waited)
	}
	if beside := within["beside, leased"]; beside.waited > 0.25 || beside.scripts > 0.25 {
		t.Errorf("beside: %.3f of the decisions waited for Redis, which ran %.3f scripts for each", beside.waited, beside.scripts)
	}
}

// Without Redis each Stint continues with its local share, and all of them together stay within the
// limit. If one Stint ends, the others continue.
func TestDeployFaults(t *testing.T) {
	for _, s := range shapes {
		if !s.redis {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			at := s.up(t)
			plan := loadtest.Fleet{Nodes: at.nodes, Callers: 4, Each: 60, Pause: 5 * time.Millisecond, Questions: []string{loadtest.Question("api", "remote_address", "192.0.2.1", 1)}}
			at.store.Stop()
			record, err := plan.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range at.nodes {
				of := record.Of(func(a *loadtest.FleetAnswer) bool { return a.Node == i })
				if passed := loadtest.AllowedOf(of); passed == 0 || record.Lost > 0 {
					t.Errorf("%d of %d passed at server %d, and %d questions had no answer", passed, len(of), i+1, record.Lost)
				}
			}
			if worst := loadtest.WorstOf(record.Answers, burst, rate); worst.Over() > 0.5 {
				t.Errorf("in %v %d passed, at most %.1f may", worst.Length, worst.Passed, worst.May)
			}
			t.Logf("without Redis %d of %d passed in %v", loadtest.AllowedOf(record.Answers), len(record.Answers), record.Took.Round(time.Millisecond))
			if !s.beside {
				return
			}
			at.stints[0].Stop()
			if record, err = plan.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Callers of the stopped node continue at the next one, and each loses one request.
			if record.Lost != plan.Callers || loadtest.AllowedOf(record.Answers) == 0 {
				t.Errorf("%d questions had no answer, %d passed", record.Lost, loadtest.AllowedOf(record.Answers))
			}
		})
	}
}

func (a asked) log(t *testing.T, name string) {
	t.Helper()
	round := func(percent int) time.Duration {
		return loadtest.PercentileOf(a.Answers, percent).Round(10 * time.Microsecond)
	}
	t.Logf("%-26s %5d decisions, p50 %v, p99 %v; of each %.3f waited for Redis, which ran %.3f scripts; %.0f us of the processor for Stint, %.1f for Redis",
		name, len(a.Answers), round(50), round(99), a.waited, a.scripts, a.stint, a.redis)
}

// relay forwards connections to an address like the network between two machines: all data arrives
// later, in order. It returns its own address.
func relay(t *testing.T, to string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return listener.Addr().String()
}

// carry copies one direction of a connection, late.
func carry(from, to net.Conn) {
	type parcel struct {
		data []byte
		due  time.Time
	}
	way := make(chan parcel, 1024)
	go func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due)) // the delay of the network
			if _, err := to.Write(p.data); err != nil {
				from.Close()
			}
		}
	}()
	defer close(way)
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if n > 0 {
			way <- parcel{data[:n], time.Now().Add(distance)}
		}
		if err != nil {
			return
		}
	}
}

// nginx, the server of the compose files, follows Stint's decisions, and lets requests pass while
// Stint is away.
func TestDeployServer(t *testing.T) {
	nginx := programs.Binary(t, "nginx")
	service := startCompose(t, "deploy/beside/compose.yaml", startRedis(t, "deploy/beside/compose.yaml").Addr)[0]
	server, dir := testkit.Address(t), t.TempDir()
	text, err := os.ReadFile("deploy/server.conf.template")
	if err != nil {
		t.Fatal(err)
	}
	conf := strings.NewReplacer("${STINT}", service.HTTP, "${SERVER}", "server-1", "listen 80;", "listen "+server+";",
		"127.0.0.1:9000", testkit.Address(t)).Replace(string(text))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("server.conf", conf)
	main := write("nginx.conf", `daemon off; pid nginx.pid; error_log stderr warn; events {}
		http { access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e; include server.conf; }`)
	args := []string{"-p", dir, "-c", main}
	if os.Getuid() == 0 { // other users may not enter that folder
		args = append(args, "-g", "user root;")
	}
	programs.Run(t, programs.Command{Path: nginx, Args: args, Ready: programs.Answers("http://" + server)})
	client := programs.Client(t, "127.0.0.1")
	passed := func(of int) (n int) {
		for range of {
			resp, err := client.Get("http://" + server + "/login")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				n++
			case resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "":
				t.Errorf("refused with %s, header %v", resp.Status, resp.Header)
			}
		}
		return n
	}
	if n := passed(12); n != 10 {
		t.Errorf("%d of 12 passed, want 10", n)
	}
	service.Freeze()
	if n := passed(3); n != 3 {
		t.Errorf("%d of 3 passed without Stint", n)
	}
}
