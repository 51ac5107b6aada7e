package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/facts"
	"stint/internal/text"
)

// patience is how long a process may take to be ready.
const patience = 20 * time.Second

// fleet is a Redis and the nodes that share it.
type fleet struct {
	dir    string // folder of all files, removed at the end
	socket string // socket of Redis
	redis  *process
	nodes  []*process

	binary string // of the service
}

// startFleet starts Redis and the nodes. The caller must call stop, also after an error.
func startFleet(ctx context.Context, binary string) (*fleet, error) {
	f := &fleet{}
	server, err := lookRedis()
	if err != nil {
		return f, err
	}
	if f.dir, err = os.MkdirTemp("", "stint-demo"); err != nil {
		return f, err
	}
	if binary == "" {
		binary = filepath.Join(f.dir, "stint")
		if err := build(ctx, binary); err != nil {
			return f, err
		}
	}
	f.socket = filepath.Join(f.dir, "redis")
	if f.redis, err = start(exec.Command(server, "--port", "0", "--unixsocket", f.socket, "--dir", f.dir, "--save", "", "--appendonly", "no")); err != nil {
		return f, err
	}
	if err := f.redis.await(ctx, f.listens); err != nil {
		return f, err
	}
	f.binary = binary
	if err := os.WriteFile(f.rules(), []byte(rules), 0o600); err != nil {
		return f, err
	}
	if err := os.WriteFile(f.secret(), facts.NewSecret(), 0o600); err != nil {
		return f, err
	}
	for i := range nodes {
		n, err := f.startNode(i)
		if err != nil {
			return f, err
		}
		f.nodes = append(f.nodes, n)
	}
	for _, n := range f.nodes {
		if err := n.await(ctx, func() bool { return n.address("http") != "" }); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *fleet) rules() string { return filepath.Join(f.dir, "rules.yaml") }

// secret is the file of the secret under which the nodes show keys. With the same they know a key of another.
func (f *fleet) secret() string { return filepath.Join(f.dir, "secret") }

// startNode starts a node, which may not listen yet.
func (f *fleet) startNode(i int) (*process, error) {
	return start(exec.Command(f.binary, "serve", "--rules", f.rules(), "--store", "redis+unix://"+f.socket, "--store-timeout", "1s",
		"--http", "127.0.0.1:0", "--grpc", "", "--admin", "127.0.0.1:0", "--resp", "", "--log-format", "json",
		"--node", fmt.Sprint("node-", i+1), "--namespace-secret-file", f.secret()))
}

// restart starts the killed node again.
func (f *fleet) restart(ctx context.Context) error {
	n, err := f.startNode(killed)
	if err != nil {
		return err
	}
	f.nodes[killed] = n
	return n.await(ctx, func() bool { return n.address("http") != "" })
}

// page returns the address of the page of a node.
func (f *fleet) page() string { return "http://" + f.nodes[0].address("admin") + "/" }

// build writes the service to the file binary. The module of the service has its libraries.
func build(ctx context.Context, binary string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", "stint/app").Output()
	if err != nil {
		return fmt.Errorf("no sources of stint: %w\nhint: run it with make demo", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/stint")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the service: %w\n%s", err, out)
	}
	return nil
}

// lookRedis finds the program of a server that nodes can share.
func lookRedis() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no redis-server here, and the nodes need a store that they share: what is in memory is each node's own\n" +
		"hint: make deps installs it; where it may not, install redis-server or valkey-server by your package manager")
}

func (f *fleet) listens() bool {
	conn, err := net.Dial("unix", f.socket)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// urls returns the URLs of the nodes.
func (f *fleet) urls() (urls []string) {
	for _, n := range f.nodes {
		urls = append(urls, "http://"+n.address("http"))
	}
	return urls
}

// stop ends all processes and removes their files.
func (f *fleet) stop() {
	for _, p := range append(f.nodes, f.redis) {
		if p != nil {
			p.kill()
		}
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // a left over folder is in the temporary folder and does no harm
	}
}

// process is a running program. It ends with the demo, on Linux even if the demo is killed.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   text.OutputBuffer
	asked int // the last result of asks
}

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	leash(cmd)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STINT_") }) // flags have all settings
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the log has the reason
		close(p.ended)
	}()
	return p, nil
}

// address returns the address of a node's listener, "" until it listens.
func (p *process) address(listener string) string {
	for line := range strings.Lines(p.log.String()) {
		var entry struct{ Msg, Listener, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" && entry.Listener == listener {
			return entry.Address
		}
	}
	return ""
}

// asks returns how often a node has called Redis so far, for decisions and to report its usage.
// After the node has ended it returns the last value.
func (p *process) asks() int {
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + p.address("admin") + "/metrics")
	if err != nil {
		return p.asked
	}
	defer resp.Body.Close()
	sum := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.Atoi(value); err == nil && (name == "stint_lease_store_decisions_total" || name == "stint_lease_messages_total") {
			sum += n
		}
	}
	p.asked = sum
	return sum
}

// await returns once the process is ready.
func (p *process) await(ctx context.Context, ready func() bool) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended:\n%s", p.cmd.Path, p.log.String())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w:\n%s", p.cmd.Path, ctx.Err(), p.log.String())
		case <-tick.C:
		}
	}
	return nil
}

// kill ends the process at once, like kill -9. A second call does nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}
