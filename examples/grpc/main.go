// Command grpc limits a gRPC server to five calls an hour for each client, and limits its own
// client to fifty calls a second.
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

// run starts the server, calls it, and stops it.
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
		// By default calls of the health service are exempt. Here they are the only calls, so
		// nothing is exempt.
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
	defer func() { _ = connection.Close() }() // the output is complete, so an error does not matter
	client := healthpb.NewHealthClient(connection)
	for i := range 6 {
		answer, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil { // the sixth call: the client's limit allows it, the server's denies it
			fmt.Fprintf(out, "call %d: %v: %s\n", i, status.Code(err), status.Convert(err).Message())
			continue
		}
		fmt.Fprintf(out, "call %d: %v\n", i, answer.GetStatus())
	}
	return nil
}
