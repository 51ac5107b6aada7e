// Command grpc limits a gRPC server, each client to five calls an hour, and keeps a
// client of it to fifty a second.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"stint"
	"stint/grpclimit"
	"stint/store/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// run serves, calls, and stops.
func run(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := limitedServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	err = call(ctx, out, listener.Addr().String())
	server.GracefulStop()
	return errors.Join(err, <-served)
}

// limitedServer allows each client five calls an hour.
func limitedServer() *grpc.Server {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Hour})
	limits := grpclimit.Limit(memory.New(memory.Options{}), limit, grpclimit.Options{
		// Calls of the health service are not limited, unless Exempt says so: here they
		// are the only ones.
		Exempt: []string{},
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server
}

// call calls the server six times, as fast as the client's own limit allows.
func call(ctx context.Context, out io.Writer, address string) error {
	own := grpclimit.NewClient(memory.New(memory.Options{}), stint.MustLimit(stint.Spec{
		Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 1,
	}), grpclimit.ClientOptions{Name: "calls to health"})
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(own.Unary), grpc.WithChainStreamInterceptor(own.Stream))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = connection.Close() }() // an error would come too late
	client := healthpb.NewHealthClient(connection)
	for i := range 6 {
		answer, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil { // the sixth: the client may go on, the server does not let it
			fmt.Fprintf(out, "call %d: %v: %s\n", i, status.Code(err), status.Convert(err).Message())
			continue
		}
		fmt.Fprintf(out, "call %d: %v\n", i, answer.GetStatus())
	}
	return nil
}
