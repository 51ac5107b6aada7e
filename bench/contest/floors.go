package contest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/tidwall/redcon"
	"google.golang.org/grpc"
)

// floorArg is the first argument of a process that serves a floor. The kind and the address follow.
const floorArg = "floor"

// ServeIfFloor serves a floor until the process is killed, if Programs.Floor started the process for that; else it returns. The main of each
// program that starts floors calls it first.
func ServeIfFloor() {
	if len(os.Args) == 4 && os.Args[1] == floorArg {
		fmt.Fprintln(os.Stderr, "floor:", serveFloor(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
}

// Floor starts a server that answers a constant, which is what the carrier alone costs: resp, grpc or http. The server is this program again.
func (p *Programs) Floor(ctx context.Context, kind string) (string, *Program, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	return p.Serve(ctx, 1, func(a []string) (env, args []string) { return nil, []string{self, floorArg, kind, a[0]} })
}

// serveFloor answers a constant until the process is killed.
func serveFloor(kind, address string) error {
	switch kind {
	case "resp":
		return redcon.ListenAndServe(address, func(c redcon.Conn, _ redcon.Command) { c.WriteString("PONG") }, nil, nil)
	case "grpc":
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(s, constant{answer: &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}})
		return s.Serve(l)
	case "http":
		server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"allowed":true,"limit":150000000,"remaining":149999999,"retry_after_ms":0,"reset_after_ms":1}`)
		})}
		return server.ListenAndServe()
	}
	return fmt.Errorf("unknown floor %q", kind)
}

// constant allows every request.
type constant struct {
	rls.UnimplementedRateLimitServiceServer
	answer *rls.RateLimitResponse
}

// ShouldRateLimit returns the constant.
func (c constant) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return c.answer, nil
}
