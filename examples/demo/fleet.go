package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"stint/examples/process"
	"stint/facts"
)

// fleet is a Redis and the nodes that share it.
type fleet struct {
	dir    string // folder of all files, removed at the end
	socket string // socket of Redis
	redis  *process.Process
	nodes  []*node

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
		if err := process.Build(ctx, binary); err != nil {
			return f, err
		}
	}
	f.socket = filepath.Join(f.dir, "redis")
	if f.redis, err = process.Start(exec.Command(server, "--port", "0", "--unixsocket", f.socket, "--dir", f.dir, "--save", "", "--appendonly", "no")); err != nil {
		return f, err
	}
	if err := f.redis.Await(ctx, f.listens); err != nil {
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
		if err := n.Await(ctx, func() bool { return n.Address("http") != "" }); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *fleet) rules() string { return filepath.Join(f.dir, "rules.yaml") }

// secret is the file of the secret under which the nodes show keys. With the same they know a key of another.
func (f *fleet) secret() string { return filepath.Join(f.dir, "secret") }

// startNode starts a node, which may not listen yet.
func (f *fleet) startNode(i int) (*node, error) {
	p, err := process.Start(exec.Command(f.binary, "serve", "--rules", f.rules(), "--store", "redis+unix://"+f.socket, "--store-timeout", "1s",
		"--http", "127.0.0.1:0", "--grpc", "", "--admin", "127.0.0.1:0", "--resp", "", "--log-format", "json",
		"--node", fmt.Sprint("node-", i+1), "--namespace-secret-file", f.secret()))
	if err != nil {
		return nil, err
	}
	return &node{Process: p}, nil
}

// restart starts the killed node again.
func (f *fleet) restart(ctx context.Context) error {
	n, err := f.startNode(killed)
	if err != nil {
		return err
	}
	f.nodes[killed] = n
	return n.Await(ctx, func() bool { return n.Address("http") != "" })
}

// page returns the address of the page of a node.
func (f *fleet) page() string { return "http://" + f.nodes[0].Address("admin") + "/" }

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
		urls = append(urls, "http://"+n.Address("http"))
	}
	return urls
}

// stop ends all processes and removes their files.
func (f *fleet) stop() {
	for _, n := range f.nodes {
		n.Kill()
	}
	if f.redis != nil {
		f.redis.Kill()
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // a left over folder is in the temporary folder and does no harm
	}
}

// node is a running node of the service.
type node struct {
	*process.Process
	asked int // the last result of asks
}

// asks returns how often a node has called Redis so far, for decisions and to report its usage.
// After the node has ended it returns the last value.
func (n *node) asks() int {
	client := http.Client{Timeout: process.Patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + n.Address("admin") + "/metrics")
	if err != nil {
		return n.asked
	}
	defer resp.Body.Close()
	sum := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.Atoi(value); err == nil && (name == "stint_lease_store_decisions_total" || name == "stint_lease_messages_total") {
			sum += n
		}
	}
	n.asked = sum
	return sum
}
