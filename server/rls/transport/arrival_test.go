package transport

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"stint/server/rls"
)

// dial returns a connection of grpc-go, which can send headers and nothing after them.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A call whose request does not arrive ends, whatever it asks for.
func TestHalfOpenCalls(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{Reflection: true})
	s.arrive = 100 * time.Millisecond
	c := dial(t, serve(t, s))
	for _, method := range []string{
		"/" + service + "/ShouldRateLimit", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		stream, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- stream.RecvMsg(new(healthpb.HealthCheckResponse)) }()
		select {
		case err := <-ended:
			if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
				t.Errorf("%s ended with %v", method, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not end", method)
		}
	}
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d calls are in flight", n)
	}
}

// A stream whose first message arrived stays open for as long as both sides want.
func TestStreamsStayOpen(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{})
	s.arrive = 100 * time.Millisecond
	watch, err := healthpb.NewHealthClient(dial(t, serve(t, s))).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	time.Sleep(3 * s.arrive) // the time in which a request has to arrive
	s.Ready(true)
	if second, err := watch.Recv(); err != nil || second.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", second, err)
	}
}
