package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// peerModules are the libraries whose versions the page has.
var peerModules = []string{
	"github.com/go-chi/httprate", "github.com/sethvargo/go-limiter", "github.com/throttled/throttled/v2", "golang.org/x/time",
	"github.com/ulule/limiter/v3", "github.com/go-redis/redis_rate/v10", "github.com/redis/rueidis", "github.com/tidwall/redcon", "google.golang.org/grpc",
}

// versions returns the lines about the machine and what was compared.
func versions(ctx context.Context, s settings) []string {
	lines := []string{
		fmt.Sprintf("%s, %d processors (two are used), %s/%s, kernel %s", model(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, first(ctx, "uname", "-r")),
		runtime.Version() + "; " + first(ctx, "redis-server", "--version") + "; stint as in the commit of this page",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		found := map[string]string{}
		for _, d := range info.Deps {
			found[d.Path] = d.Version
		}
		var list []string
		for _, m := range peerModules {
			list = append(list, m+" "+found[m])
		}
		lines = append(lines, strings.Join(list, ", "))
	}
	for _, p := range []struct {
		name, program string
		ask           []string
	}{
		{"throttlecrab-server", s.peers.throttlecrab, []string{"--version"}},
		{"envoyproxy/ratelimit", s.peers.ratelimit, nil},
		{"limitador", s.peers.limitador, []string{"--version"}},
		{"gubernator", s.peers.gubernator, nil},
	} {
		switch {
		case p.program == "":
			lines = append(lines, p.name+": not measured, its program was not there")
		case p.ask != nil:
			lines = append(lines, p.name+": "+first(ctx, p.program, p.ask...))
		default:
			lines = append(lines, p.name+": "+moduleOf(ctx, p.program))
		}
	}
	return lines
}

// first returns the first line that a program prints, without more than the page can have.
func first(ctx context.Context, program string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // the user's own programs
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// moduleOf returns the module and version of a program that Go built.
func moduleOf(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, "go", "version", "-m", program).Output() //nolint:gosec // the user's own programs
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) >= 3 && fields[0] == "mod" {
			return fields[1] + " " + fields[2]
		}
	}
	return "unknown"
}
