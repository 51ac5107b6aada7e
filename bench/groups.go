package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"stint/bench/contest"
)

// respServers compares servers of the Redis protocol.
func respServers(ctx context.Context, s settings, r *results) error {
	var programs contest.Programs
	defer programs.Stop()
	ping, pingServer, errPing := programs.Floor(ctx, "resp")
	redis, redisServer, errRedis := programs.Redis(ctx, s.dir)
	ours, oursServer, errOurs := s.stint.Serve(ctx, &programs, "resp")
	if err := errors.Join(errPing, errRedis, errOurs); err != nil {
		return err
	}
	sha, err := contest.LoadGCRA(ctx, redis)
	if err != nil {
		return err
	}
	const key = "key:__rand_int__"
	var list []contestant
	add := func(name string, whose role, address string, server *contest.Program, command ...string) {
		list = append(list, contestant{name, whose, func(ctx context.Context) (map[column]float64, error) {
			values := map[column]float64{}
			for _, pipeline := range []int{1, 16} {
				if err := s.respLoad(ctx, values, address, server, pipeline, command); err != nil {
					return nil, err
				}
			}
			return values, nil
		}})
	}
	add("redcon PING", isFloor, ping, pingServer, "PING")
	add("redis-server INCR, 10,000 keys", isFloor, redis, redisServer, "INCR", key)
	add("redis-server EVALSHA of GCRA", isPeer, redis, redisServer, "EVALSHA", sha, "1", key, "10", "100000000")
	add("stint CL.THROTTLE, 10,000 keys", isOurs, ours, oursServer, "CL.THROTTLE", key, "100000000", "1000000", "1")
	add("stint CL.THROTTLE, denied", isOursApart, ours, oursServer, "CL.THROTTLE", "denied", "0", "1", "86400")
	add("stint STINT.CHECK, 10,000 keys", isOurs, ours, oursServer, "STINT.CHECK", "bench", "1", "user", key)
	if s.peers.throttlecrab != "" {
		crab, crabServer, err := s.startThrottlecrab(ctx, &programs, "redis")
		if err != nil {
			return err
		}
		add("throttlecrab-server THROTTLE, 10,000 keys", isPeer, crab, crabServer, "THROTTLE", key, "100000", "1000000", "1")
	}
	args, err := contest.RedisBenchmark{Address: ours, Requests: respRequests(s, 1), Connections: respConnections, Pipeline: 1, Command: []string{"CL.THROTTLE", key, "100000000", "1000000", "1"}}.Args()
	r.command("resp", "redis-benchmark "+strings.Join(args, " ")+"` and with `-P 16 -n "+fmt.Sprint(respRequests(s, 16)))
	return errors.Join(err, r.turns(ctx, "Redis protocol", s.rounds, list))
}

const respConnections = 50

// respRequests returns about how many commands a server answers in the time of a measurement.
func respRequests(s settings, pipeline int) int {
	return int(80_000*s.time.Seconds()) * (1 + pipeline/5)
}

// respLoad adds the figures of one server.
func (s *settings) respLoad(ctx context.Context, values map[column]float64, address string, server *contest.Program, pipeline int, command []string) error {
	b := contest.RedisBenchmark{Address: address, Requests: respRequests(*s, pipeline), Connections: respConnections, Pipeline: pipeline, Command: command}
	figures, err := b.Run(ctx, server)
	suffix := fmt.Sprintf(", P=%d", pipeline)
	values[column{perSecond.name + suffix, false}] = figures.Rate
	values[column{perAnswer.name + suffix, true}] = figures.CPU
	return err
}

// grpcServers compares servers of Envoy's rate limit protocol.
func grpcServers(ctx context.Context, s settings, r *results) error {
	var programs contest.Programs
	defer programs.Stop()
	constant, constantServer, errConstant := programs.Floor(ctx, "grpc")
	ours, oursServer, errOurs := s.stint.Serve(ctx, &programs, "grpc")
	redis, _, errRedis := programs.Redis(ctx, s.dir)
	shared, sharedServer, errShared := s.stint.Serve(ctx, &programs, "grpc", "--store", "redis://"+redis, "--store-timeout", "1s")
	if err := errors.Join(errConstant, errOurs, errRedis, errShared); err != nil {
		return err
	}
	var list []contestant
	request := []string{"--domain", "bench", "--descriptor", "user={key}"}
	add := func(name string, whose role, address string, server *contest.Program) {
		list = append(list, contestant{name, whose, func(ctx context.Context) (map[column]float64, error) {
			return s.load(ctx, server, "grpc://"+address, request...)
		}})
	}
	add("grpc-go, a constant answer", isFloor, constant, constantServer)
	add("stint, counts in memory", isOurs, ours, oursServer)
	add("stint, counts in Redis", isOurs, shared, sharedServer)
	if s.peers.ratelimit != "" {
		address, server, err := s.startRatelimit(ctx, &programs, redis)
		if err != nil {
			return err
		}
		add("envoyproxy/ratelimit, counts in Redis", isPeer, address, server)
	}
	if s.peers.limitador != "" {
		address, server, err := s.startLimitador(ctx, &programs)
		if err != nil {
			return err
		}
		add("limitador, counts in memory", isPeer, address, server)
	}
	r.command("grpc", s.line("grpc://"+ours, request...))
	return r.turns(ctx, "Envoy's protocol (gRPC)", s.rounds, list)
}

// startRatelimit starts envoyproxy/ratelimit with the same rule, which it has as a fixed window.
func (s *settings) startRatelimit(ctx context.Context, programs *contest.Programs, redis string) (string, *contest.Program, error) {
	folder := filepath.Join(s.dir, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", nil, err
	}
	const rules = "domain: bench\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 1000000000}\n"
	if err := os.WriteFile(filepath.Join(folder, "bench.yaml"), []byte(rules), 0o600); err != nil {
		return "", nil, err
	}
	return programs.Serve(ctx, 3, func(a []string) (env, args []string) {
		_, grpcPort, _ := net.SplitHostPort(a[0])
		_, httpPort, _ := net.SplitHostPort(a[1])
		_, debugPort, _ := net.SplitHostPort(a[2])
		return []string{
			"RUNTIME_ROOT=" + s.dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
			"PORT=" + httpPort, "GRPC_PORT=" + grpcPort, "DEBUG_PORT=" + debugPort,
		}, []string{s.peers.ratelimit}
	})
}

// startLimitador starts limitador-server with the same rule, which it has as a fixed window.
func (s *settings) startLimitador(ctx context.Context, programs *contest.Programs) (string, *contest.Program, error) {
	file := filepath.Join(s.dir, "limitador.yaml")
	const rules = "- namespace: bench\n  max_value: 1000000000\n  seconds: 60\n  conditions: []\n  variables: [\"descriptors[0]['user']\"]\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return "", nil, err
	}
	return programs.Serve(ctx, 2, func(a []string) (env, args []string) {
		_, grpcPort, _ := net.SplitHostPort(a[0])
		_, httpPort, _ := net.SplitHostPort(a[1])
		return nil, []string{s.peers.limitador, "--rls-ip", "127.0.0.1", "--rls-port", grpcPort, "--http-ip", "127.0.0.1", "--http-port", httpPort, file, "memory"}
	})
}

// httpServers compares servers that decide over HTTP.
func httpServers(ctx context.Context, s settings, r *results) error {
	var programs contest.Programs
	defer programs.Stop()
	constant, constantServer, errConstant := programs.Floor(ctx, "http")
	ours, oursServer, errOurs := s.stint.Serve(ctx, &programs, "http")
	if err := errors.Join(errConstant, errOurs); err != nil {
		return err
	}
	var list []contestant
	add := func(name string, whose role, url, body string, server *contest.Program) {
		args := []string{"--protocol", "http", "--method", "POST", "--header", "Content-Type: application/json", "--body", body}
		list = append(list, contestant{name, whose, func(ctx context.Context) (map[column]float64, error) {
			return s.load(ctx, server, "http://"+url, args...)
		}})
		r.command("http, "+name, s.line("http://"+url, args...))
	}
	const byRule = `{"domain":"bench","descriptors":[{"entries":[{"key":"user","value":"{key}"}]}]}`
	add("net/http, a constant answer", isFloor, constant+"/", byRule, constantServer)
	add("stint, by a rule", isOurs, ours+"/v1/check", byRule, oursServer)
	add("stint, the limit in the request", isOurs, ours+"/v1/check", `{"key":"{key}","limit":{"algorithm":"token_bucket","requests":30000000,"per":"1m","burst":150000000}}`, oursServer)
	if s.peers.throttlecrab != "" {
		address, server, err := s.startThrottlecrab(ctx, &programs, "http")
		if err != nil {
			return err
		}
		add("throttlecrab-server", isPeer, address+"/throttle", `{"key":"{key}","max_burst":100000,"count_per_period":1000000,"period":1}`, server)
	}
	if s.peers.gubernator != "" {
		address, server, err := s.startGubernator(ctx, &programs)
		if err != nil {
			return err
		}
		add("gubernator", isPeer, address+"/v1/GetRateLimits", `{"requests":[{"name":"bench","unique_key":"{key}","hits":"1","limit":"1000000000","duration":"60000","algorithm":"TOKEN_BUCKET"}]}`, server)
	}
	return r.turns(ctx, "HTTP and JSON", s.rounds, list)
}

// startGubernator starts one node of gubernator.
func (s *settings) startGubernator(ctx context.Context, programs *contest.Programs) (string, *contest.Program, error) {
	return programs.Serve(ctx, 2, func(a []string) (env, args []string) {
		return []string{"GUBER_HTTP_ADDRESS=" + a[0], "GUBER_GRPC_ADDRESS=" + a[1], "GUBER_ADVERTISE_ADDRESS=" + a[1], "GUBER_PEER_DISCOVERY_TYPE=none", "GUBER_LOG_LEVEL=error"}, []string{s.peers.gubernator}
	})
}
