// Command grpc limits a gRPC server, each client to 100 calls a minute, and keeps
// a client of it to five a second.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"stint"
	"stint/grpclimit"
	"stint/store/memory"
)

func main() {
	store := memory.New(memory.Options{})
	limits := grpclimit.Limit(store, stint.MustLimit(stint.Spec{
		Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute,
	}), grpclimit.Options{
		// Calls of the health service are not limited, unless Exempt says so: here they
		// are the only ones.
		Exempt: []string{},
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Serve(listener)) }()

	if err := ask(store, listener.Addr().String()); err != nil {
		log.Fatal(err)
	}
}

// ask calls the server ten times, as fast as the client's own limit allows.
func ask(store stint.Store, address string) error {
	own := grpclimit.NewClient(store, stint.MustLimit(stint.Spec{
		Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second,
	}), grpclimit.ClientOptions{Name: "calls to health"})
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(own.Unary), grpc.WithChainStreamInterceptor(own.Stream))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = connection.Close() }() // an error would come too late
	client, began := healthpb.NewHealthClient(connection), time.Now()
	for range 10 {
		answer, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		if err != nil {
			return fmt.Errorf("asking: %w", err)
		}
		fmt.Printf("%4d ms: %v\n", time.Since(began).Milliseconds(), answer.GetStatus())
	}
	return nil
}
