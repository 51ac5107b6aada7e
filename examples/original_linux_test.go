package examples

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// The examples and the test scripts of envoyproxy/ratelimit run unchanged against Stint, behind the
// real Envoy. Their host names and ports are those of containers, so each run has its own network
// and /etc/hosts.

// fetched is the folder into which scripts/fetch-envoy-ratelimit.sh writes them.
const fetched = "../.cache/envoy-ratelimit"

var dir = flag.String("original.dir", fetched, "the `folder` with examples and integration-test")

// containers are the services of the compose file, with their networks and files.
type containers struct {
	t     testing.TB
	from  string       // the folder that was fetched
	hosts string       // the hosts file
	here  *testkit.Net // network of all services except the mock, which has the same ports as the proxy
	there *testkit.Net
}

// startOriginal starts the services like integration-test/docker-compose-integration-test.yml.
func startOriginal(t testing.TB) *containers {
	t.Helper()
	from, err := filepath.Abs(*dir)
	testkit.Must(t, err)
	if _, err := os.Stat(filepath.Join(from, "examples")); err != nil {
		testkit.SkipOrFail(t, "no examples of envoyproxy/ratelimit; scripts/install-test-deps.sh fetches them")
	}
	return startFrom(t, from)
}

// startFrom is startOriginal with the files of a folder.
func startFrom(t testing.TB, from string) *containers {
	t.Helper()
	c := &containers{t: t, from: from, hosts: filepath.Join(t.TempDir(), "hosts"), here: testkit.NewNet(t), there: testkit.NewNet(t)}
	mock := c.here.Link(0, c.there).There
	names := "127.0.0.1 localhost redis statsd ratelimit envoy-proxy\n" + mock + " envoy-mock\n"
	testkit.Must(t, os.WriteFile(c.hosts, []byte(names), 0o644))
	c.here.Do(c.mustMount)

	c.run(c.here, "127.0.0.1:6379", programs.Command{
		Path: programs.Binary(t, "redis-server"), Args: []string{"--port", "6379", "--save", "", "--appendonly", "no"}, Dir: t.TempDir(),
	})
	c.run(c.here, "127.0.0.1:9102", programs.Command{
		Path: statsdExporter(t), Args: []string{"--statsd.mapping-config=" + filepath.Join(c.from, "examples/prom-statsd-exporter/conf.yaml")},
	})
	c.ratelimit()
	c.envoy(c.there, "mock", mock+":9999")
	c.envoy(c.here, "proxy", "127.0.0.1:8888")
	return c
}

// mount runs a command with the file as its /etc/hosts.
const mount = `mount --bind "$0" /etc/hosts && exec "$@"`

// inside returns the words that run a command with the names of the services in /etc/hosts.
func (c *containers) inside(words ...string) []string {
	return append([]string{"--mount", "sh", "-c", mount, c.hosts}, words...)
}

// mustMount skips the test if mounting is not granted.
func (c *containers) mustMount() {
	if out, err := exec.Command("unshare", c.inside("true")...).CombinedOutput(); err != nil {
		testkit.SkipNotGranted(c.t, "an /etc/hosts of its own (CAP_SYS_ADMIN): "+err.Error()+": "+string(out))
	}
}

// run starts a service for the time of the test, and waits until it listens.
func (c *containers) run(in *testkit.Net, address string, command programs.Command) {
	c.t.Helper()
	command.Args = c.inside(append([]string{command.Path}, command.Args...)...)
	command.Path, command.Ready = "unshare", programs.Listens(address)
	in.Do(func() { programs.Run(c.t, command) })
}

// statsdExporter returns the path of the program that converts StatsD to Prometheus.
func statsdExporter(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../.cache/bin/statsd_exporter")
	testkit.Must(t, err)
	if _, err := os.Stat(path); err != nil {
		testkit.SkipOrFail(t, "no statsd_exporter; scripts/install-test-deps.sh installs it")
	}
	return path
}

// envoy runs one of the two Envoys of the examples.
func (c *containers) envoy(in *testkit.Net, node, address string) {
	c.t.Helper()
	c.run(in, address, programs.Command{Path: programs.Binary(c.t, "envoy"), Args: []string{
		"--service-node", node, "--service-cluster", node, "--config-path", filepath.Join(c.from, "examples/envoy", node+".yaml"),
		"--concurrency", "1", "--mode", "serve", "--log-level", "error", "--disable-hot-restart",
	}})
}

// variable matches an environment line of the compose file.
var variable = regexp.MustCompile(`(?m)^\s+- ([A-Z_]+=\S+)$`)

// ratelimit runs Stint instead of the service, with its name and its environment.
func (c *containers) ratelimit() {
	c.t.Helper()
	compose, err := os.ReadFile(filepath.Join(c.from, "integration-test/docker-compose-integration-test.yml"))
	testkit.Must(c.t, err)
	var environ []string
	for _, found := range variable.FindAllSubmatch(compose, -1) {
		environ = append(environ, string(found[1]))
	}
	if !slices.Contains(environ, "REDIS_URL=redis:6379") {
		c.t.Fatalf("the environment of the compose file: %q", environ)
	}
	root := c.t.TempDir() // the folder that the compose file mounts
	testkit.Must(c.t, os.Mkdir(filepath.Join(root, "ratelimit"), 0o755))
	testkit.Must(c.t, os.Symlink(filepath.Join(c.from, "examples/ratelimit/config"), filepath.Join(root, "ratelimit/config")))
	name := filepath.Join(c.t.TempDir(), "ratelimit")
	testkit.Must(c.t, os.Symlink(programs.Build(c.t), name))
	// A script waits 5 s for statistics that are sent every 10 s by default.
	environ = append(environ, "RUNTIME_ROOT="+root, "STATS_FLUSH_INTERVAL=1s")
	c.run(c.here, "127.0.0.1:8081", programs.Command{Path: name, Env: environ})
}

// tries is how often a script may run if Envoy gets answers too late.
const tries = 5

// script runs one of the scripts, and fails the test if the script fails.
//
// Envoy waits 20 ms for an answer, and lets a request pass without one. That happens on a busy
// machine, and Envoy counts it. After a late answer a failure means nothing, and the script runs
// again.
func (c *containers) script(path string) {
	c.t.Helper()
	for range tries {
		late := c.late()
		early(c.t)
		out, err := c.exec("bash", path)
		if err == nil {
			return
		}
		if c.late() == late {
			c.t.Errorf("%s: %v:\n%s", filepath.Base(path), err, out)
			return
		}
		c.t.Logf("%s: %v, and Envoy had no answer in time", filepath.Base(path), err)
		_, err = c.exec("redis-cli", "-h", "redis", "flushall")
		testkit.Must(c.t, err)
	}
	c.t.Errorf("%s: Envoy had no answer in time, %d times", filepath.Base(path), tries)
}

// exec runs a command in the network of the services and returns its output.
func (c *containers) exec(words ...string) (out []byte, err error) {
	c.here.Do(func() { out, err = exec.Command("unshare", c.inside(words...)...).CombinedOutput() })
	return out, err
}

// lateness matches Envoy's counter of requests that passed without an answer.
var lateness = regexp.MustCompile(`ratelimit\.error: (\d+)`)

// late returns how many requests Envoy let pass without an answer.
func (c *containers) late() int {
	c.t.Helper()
	out, err := c.exec("curl", "-sf", "http://envoy-proxy:8001/stats?filter=ratelimit.error")
	testkit.Must(c.t, err)
	sum := 0
	for _, found := range lateness.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(found[1]))
		testkit.Must(c.t, err)
		sum += n
	}
	return sum
}

// early waits until enough of a minute is left for the requests of a script, because its limits are
// per minute.
func early(t testing.TB) {
	const most = 45
	programs.Until(t, "a young minute", func() bool { return time.Now().Second() < most })
}

// Every script of the original passes with Stint. Scripts that wait for the next minute have their
// own services, so that they wait at the same time. Stint is a separate process, which the race
// detector does not check, so a run without it is enough.
func TestOriginalScripts(t *testing.T) {
	testkit.Long(t)
	if testkit.Race {
		return
	}
	scripts, err := filepath.Glob(filepath.Join(*dir, "integration-test/scripts/*.sh"))
	testkit.Must(t, err)
	if len(scripts) == 0 {
		testkit.SkipOrFail(t, "no scripts of envoyproxy/ratelimit; scripts/install-test-deps.sh fetches them")
	}
	var quick []string
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		if !strings.Contains(string(text), "\nsleep 60\n") {
			quick = append(quick, path)
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			startOriginal(t).script(path)
		})
	}
	t.Run("quick", func(t *testing.T) {
		t.Parallel()
		c := startOriginal(t)
		for _, path := range quick {
			c.script(path)
		}
	})
	t.Logf("%d scripts, of which %d are quick", len(scripts), len(quick))
}
