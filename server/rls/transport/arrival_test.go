package transport

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"stint/server/rls"
)

// dial returns a grpc-go connection, which can send headers without a request.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A call of any method whose request does not arrive is ended.
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

// A stream whose first message arrived stays open without a time limit.
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
	time.Sleep(3 * s.arrive) // longer than the timeout of a request
	s.Ready(true)
	if second, err := watch.Recv(); err != nil || second.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", second, err)
	}
}

// halfOpen begins a call without a request; the channel receives its final error.
func halfOpen(t *testing.T, c *grpc.ClientConn, method string) chan error {
	t.Helper()
	stream, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stream.RecvMsg(new(healthpb.HealthCheckResponse)) }()
	return ended
}

// If there are too many half-open calls, the oldest one is ended, whatever its connection. Complete
// calls are still answered.
func TestHalfOpenCallsAreBounded(t *testing.T) {
	const most, more = 6, 14
	s := New(rls.New(nil, rls.Options{}), Options{})
	s.mostArriving = most
	address := serve(t, s)
	conns := []*grpc.ClientConn{dial(t, address), dial(t, address)}
	var calls []chan error
	for i := range most + more {
		calls = append(calls, halfOpen(t, conns[i%2], "/"+service+"/ShouldRateLimit"))
		for deadline := time.Now().Add(10 * time.Second); s.begun() < min(i+1, most) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // until the server has received it
		}
		if i < most {
			continue
		}
		select {
		case err := <-calls[i-most]:
			// grpc-go may notice the canceled stream first.
			if code := status.Code(err); code != codes.ResourceExhausted && code != codes.Canceled {
				t.Errorf("call %d ended with %v", i-most, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("call %d did not end", i-most)
		}
	}
	if _, err := healthpb.NewHealthClient(conns[0]).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a whole call beside them: %v", err)
	}
	if n := s.begun(); n != most-1 { // the complete call has ended one of them
		t.Errorf("%d calls wait, want %d", n, most-1)
	}
}

// begun returns the number of calls whose requests have not arrived.
func (s *Server) begun() int {
	s.arriving.mu.Lock()
	defer s.arriving.mu.Unlock()
	return s.arriving.n
}

// The headers of a call are freed before the call ends, and may be as long as Envoy's.
func TestHeadersOfCalls(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{})
	headers := metadata.Pairs("a", "1", "a", "2", "b", "3")
	ctx, err := s.expect(metadata.NewIncomingContext(t.Context(), headers), &tap.Info{Header: headers})
	if err != nil {
		t.Fatal(err)
	}
	if kept, _ := metadata.FromIncomingContext(ctx); len(kept) > 0 {
		t.Errorf("a call keeps %v", kept)
	}
	if err := s.arrived(ctx, nil); err != nil || s.begun() != 0 {
		t.Errorf("arrived: %v, and %d calls wait", err, s.begun())
	}
	c := healthpb.NewHealthClient(dial(t, serve(t, s)))
	for size, want := range map[int]bool{60 << 10: true, 65 << 10: false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", size))
		if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); (err == nil) != want {
			t.Errorf("headers of %d bytes: %v", size, err)
		}
	}
	for fields, want := range map[int]codes.Code{100: codes.OK, maxFields: codes.ResourceExhausted} { // in addition to grpc-go's own
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"a": make([]string, fields)})
		if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != want {
			t.Errorf("%d header fields: %v", fields, err)
		}
	}
}

// A connection may have a limited number of streams open, and any number of calls. Streams of other
// connections and ended streams do not count.
func TestStreamsOfAConnection(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{})
	address := serve(t, s)
	watch := func(c *grpc.ClientConn) (end func(), err error) {
		ctx, end := context.WithCancel(t.Context())
		w, err := healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = w.Recv()
		}
		return end, err
	}
	one, other := dial(t, address), dial(t, address)
	var ends []func()
	for range maxOpen {
		end, err := watch(one)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	end, err := watch(one)
	end()
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if end, err = watch(other); err != nil {
		t.Errorf("of another connection: %v", err)
	}
	end()
	if _, err := healthpb.NewHealthClient(one).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a call: %v", err)
	}
	for _, end := range ends {
		end()
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		end, err := watch(one)
		end()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the others ended: %v", err)
		}
		time.Sleep(time.Millisecond) // until the server has received it
	}
}
