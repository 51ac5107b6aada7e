package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// name is the name of the watched primary.
const name = "stint"

// Sentinels is a primary, its replicas, and three Sentinels that watch them.
type Sentinels struct {
	Servers   []*RedisServer // the first one is the primary, until it fails
	Sentinels []*RedisServer
	t         testing.TB
}

// StartSentinels starts them and waits until all know each other.
func StartSentinels(t testing.TB, replicas int) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, Servers: []*RedisServer{StartRedis(t, "--repl-diskless-sync-delay", "0")}}
	host, port, _ := net.SplitHostPort(s.Servers[0].Addr)
	for range replicas {
		s.Servers = append(s.Servers, StartRedis(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0"))
	}
	for _, server := range s.Servers[1:] {
		Until(t, "the replicas follow", func() bool { return strings.Contains(server.Do("INFO", "replication"), "master_link_status:up") })
	}
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		settings := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 2000\n", name, host, port)
		Must(t, os.WriteFile(file, []byte(settings), 0o600))
		s.Sentinels = append(s.Sentinels, run(t, &RedisServer{t: t, file: file, args: []string{"--sentinel"}}))
	}
	for _, sentinel := range s.Sentinels {
		for _, other := range s.Sentinels { // what they send each other every two seconds
			hello := fmt.Sprintf("127.0.0.1,%d,%s,0,%s,%s,%s,0", other.port, other.Do("SENTINEL", "MYID"), name, host, port)
			if other != sentinel {
				sentinel.Do("PUBLISH", "__sentinel__:hello", hello)
			}
		}
		want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", s.Servers[0].Addr, replicas, len(s.Sentinels))
		Until(t, "the Sentinels know all", func() bool { return strings.Contains(sentinel.Do("INFO", "sentinel"), want) })
	}
	return s
}

// Timeout sets after how long without a sign of life the primary counts as failed: half a second at
// first, see [RedisCluster.Timeout].
func (s *Sentinels) Timeout(d time.Duration) {
	s.t.Helper()
	for _, sentinel := range s.Sentinels {
		sentinel.ok("SENTINEL", "SET", name, "down-after-milliseconds", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// Primary returns the server that the Sentinels name as primary; nil if it is none of the servers.
func (s *Sentinels) Primary() *RedisServer {
	answer := strings.Fields(s.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
	for _, server := range s.Servers {
		if len(answer) == 2 && server.Addr == net.JoinHostPort(answer[0], answer[1]) {
			return server
		}
	}
	return nil
}

// URL returns the addresses of the Sentinels as a URL for stores.
func (s *Sentinels) URL() string {
	var all []string
	for _, sentinel := range s.Sentinels {
		all = append(all, sentinel.Addr)
	}
	return "redis+sentinel://" + strings.Join(all, ",") + "?master=" + name
}
