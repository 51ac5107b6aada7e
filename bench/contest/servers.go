package contest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Rules have a limit so large that nothing is denied during a measurement. It is of the descriptor user in the domain bench.
const Rules = `domain: bench
descriptors:
  - key: user
    rate_limit: {requests: 30000000, per: 1m, algorithm: token_bucket, burst: 150000000}
`

// Serve starts a server with n free addresses, which args makes arguments of, and waits for the first address. If another program has taken one of
// them meanwhile, it starts the server again.
func (p *Programs) Serve(ctx context.Context, n int, args func(addresses []string) (env, args []string)) (address string, server *Program, err error) {
	for range 3 {
		if address, server, err = p.serveOnce(ctx, n, args); err == nil || ctx.Err() != nil {
			break
		}
	}
	return address, server, err
}

func (p *Programs) serveOnce(ctx context.Context, n int, args func(addresses []string) (env, args []string)) (string, *Program, error) {
	addresses := make([]string, n)
	for i := range addresses {
		var err error
		if addresses[i], err = Free(); err != nil {
			return "", nil, err
		}
	}
	env, line := args(addresses)
	program, err := p.Start(ctx, env, line...)
	if err != nil {
		return "", nil, err
	}
	return addresses[0], program, WaitFor(ctx, program, addresses[0])
}

// Redis starts a redis-server without files.
func (p *Programs) Redis(ctx context.Context, dir string) (string, *Program, error) {
	return p.Serve(ctx, 1, func(a []string) (env, args []string) {
		_, port, _ := net.SplitHostPort(a[0])
		return nil, []string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--loglevel", "warning", "--logfile", "/dev/null"}
	})
}

// Stint is a build of stint, and a file with Rules.
type Stint struct{ Program, Rules string }

// BuildStint builds stint in a folder and writes a file with Rules beside it. The working directory is in the module bench.
func BuildStint(ctx context.Context, dir string) (Stint, error) {
	s := Stint{filepath.Join(dir, "stint"), filepath.Join(dir, "rules.yaml")}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "stint").Output()
	if err != nil {
		return s, fmt.Errorf("looking for the root module: %w; run this in the folder bench", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.Program, "./cmd/stint") //nolint:gosec // our own arguments
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return s, fmt.Errorf("building stint: %w\n%s", err, out)
	}
	return s, os.WriteFile(s.Rules, []byte(Rules), 0o600)
}

// Serve starts stint with one listener: http, grpc, resp or admin.
func (s Stint) Serve(ctx context.Context, programs *Programs, listener string, further ...string) (string, *Program, error) {
	return programs.Serve(ctx, 1, func(a []string) (env, args []string) {
		args = []string{s.Program, "serve", "--rules", s.Rules, "--log-level", "error"}
		for _, l := range []string{"http", "grpc", "resp", "admin"} {
			address := ""
			if l == listener {
				address = a[0]
			}
			args = append(args, "--"+l+"="+address)
		}
		return nil, append(args, further...)
	})
}
