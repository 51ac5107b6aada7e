package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"stint"
	"stint/grpclimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// ask serves the health service behind limits, and sends it one call for each element of users, as
// metadata.
func ask(limits *grpclimit.Server, client []grpc.DialOption, users ...string) error {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	cc, err := grpc.NewClient("passthrough:///health", append(client,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		return err
	}
	defer cc.Close()
	for _, user := range users {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-user", user)
		_, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
		var own *grpclimit.Refusal
		fmt.Println(user, status.Code(err), errors.As(err, &own))
	}
	return nil
}

// Each user has a budget. A proxy in front has verified the user.
func ExampleLimit() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 2, Per: time.Hour})
	limits := grpclimit.Limit(memory.New(memory.Options{}), limit, grpclimit.Options{
		Key:    grpclimit.ByMetadata("x-user"),
		Exempt: []string{}, // the example calls the health service, which is exempt by default
	})
	if err := ask(limits, nil, "ann", "ann", "ann", "ben"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ann OK false
	// ann OK false
	// ann ResourceExhausted false
	// ben OK false
}

// A call is a POST to its full method name, with its metadata as headers.
func ExampleNew() {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: path
    value: /grpc.health.v1.Health/Check
    descriptors:
      - key: user
        rate_limit: {requests: 1, per: 365d, algorithm: sliding_log}
http:
  rate_limits:
    - actions: [{path: {}}, {request_headers: {header_name: x-user, descriptor_key: user}}]
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	limits := grpclimit.New(l, "api", grpclimit.Options{Exempt: []string{}})
	if err := ask(limits, nil, "ann", "ann", "ben"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ann OK false
	// ann ResourceExhausted false
	// ben OK false
}

// A client that refuses calls instead of waiting.
func ExampleNewClient() {
	store := memory.New(memory.Options{})
	own := grpclimit.NewClient(store, stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: time.Hour}),
		grpclimit.ClientOptions{FailFast: true})
	everyone := grpclimit.Limit(store, stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), grpclimit.Options{})
	options := []grpc.DialOption{grpc.WithChainUnaryInterceptor(own.Unary), grpc.WithChainStreamInterceptor(own.Stream)}
	if err := ask(everyone, options, "ann", "ann"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ann OK false
	// ann ResourceExhausted true
}
