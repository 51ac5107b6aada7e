package proof_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"stint/internal/testkit"
)

// grpcUpstream starts a gRPC server without TLS.
func grpcUpstream(t *testing.T) (site string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "%s\n\treverse_proxy h2c://" + l.Addr().String()
}

func grpcClient(t *testing.T, g *gateway) grpc_health_v1.HealthClient {
	t.Helper()
	c, err := grpc.NewClient("localhost:"+port(g.https), grpc.WithTransportCredentials(credentials.NewTLS(g.tls())))
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return grpc_health_v1.NewHealthClient(c)
}

// Calls and streams of grpc-go pass; a denied call gets the status RESOURCE_EXHAUSTED.
func TestGRPC(t *testing.T) {
	both(t, grpcUpstream(t), func(t *testing.T, g *gateway) {
		client := grpcClient(t, g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v, %v", answer, err)
		}
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
			t.Errorf("the error of the upstream: %v", err)
		}
		stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		testkit.Must(t, err)
		if first, err := stream.Recv(); err != nil || first.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("stream: %v, %v", first, err)
		}
		if strings.HasSuffix(t.Name(), "bare") {
			return
		}
		denied := metadata.AppendToOutgoingContext(ctx, "x-deny", "grpc")
		_, first := client.Check(denied, &grpc_health_v1.HealthCheckRequest{})
		_, second := client.Check(denied, &grpc_health_v1.HealthCheckRequest{})
		if first != nil || status.Code(second) != codes.ResourceExhausted {
			t.Errorf("two calls with a limit of 1: %v, %v", first, second)
		}
		stream, err = client.Watch(denied, &grpc_health_v1.HealthCheckRequest{})
		testkit.Must(t, err)
		if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted || errors.Is(err, io.EOF) {
			t.Errorf("a denied stream: %v", err)
		}
	})
}

// While the store is away, a limit with on_store_failure: deny answers UNAVAILABLE.
func TestGRPCStoreAway(t *testing.T) {
	redis := testkit.StartRedis(t)
	rules := strings.Replace(ample, "domain: proof", "domain: proof\non_store_failure: deny", 1)
	g := setup{grpcUpstream(t), "stint proof", redis.URL(), rules}.start(t)
	client := grpcClient(t, g)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	redis.Stop()
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without the store: %v", err)
	}
}
