package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/grpclimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is the fake clock of a store.
type clock struct {
	mu  sync.Mutex
	now stint.Instant
}

func (c *clock) store() stint.Store {
	return memory.New(memory.Options{Clock: func() stint.Instant {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now
	}})
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += stint.Instant(d / time.Microsecond)
}

func limit(t testing.TB, s stint.Spec) *stint.Limit {
	t.Helper()
	l, err := stint.NewLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rules returns limits by domain api of a file.
func rules(t testing.TB, store stint.Store, file string, o grpclimit.Options) *grpclimit.Server {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	return grpclimit.New(limiter.New(store, table, limiter.Options{}), "api", o)
}

// The methods of the test service.
const (
	say  = "/test.Echo/Say"  // returns its message
	chat = "/test.Echo/Chat" // returns each message
)

// echo is the test service, as protoc would describe it.
var echo = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Say",
		Handler: func(srv any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			answer := func(_ context.Context, req any) (any, error) { return req, nil }
			if between == nil {
				return answer(ctx, in)
			}
			return between(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: say}, answer)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Chat", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				m := new(wrapperspb.StringValue)
				if err := stream.RecvMsg(m); err != nil {
					return nil // hides every error
				}
				if err := stream.SendMsg(m); err != nil {
					return err
				}
			}
		},
	}},
}

// from is the address of a client.
type from string

func (from) Network() string  { return "tcp" }
func (f from) String() string { return string(f) }

// listener is an in-memory listener whose connections have addresses.
type listener struct {
	*bufconn.Listener
	addresses chan from
}

type addressed struct {
	net.Conn
	from from
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return addressed{c, <-l.addresses}, nil
}

// serve starts a server with the interceptors, and returns a function that connects to it from an
// address.
func serve(t testing.TB, limits *grpclimit.Server) func(address from, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l := &listener{bufconn.Listen(1 << 16), make(chan from, 16)}
	var server *grpc.Server
	if limits != nil {
		server = grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	} else {
		server = grpc.NewServer()
	}
	server.RegisterService(&echo, nil)
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func(address from, o ...grpc.DialOption) *grpc.ClientConn {
		dial := func(ctx context.Context, _ string) (net.Conn, error) {
			l.addresses <- address
			return l.DialContext(ctx)
		}
		cc, err := grpc.NewClient("passthrough:///test", append(o,
			grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return cc
	}
}

// answer is the result of a call.
type answer struct {
	err             error
	header, trailer metadata.MD
}

// call calls say; md are pairs of key and value.
func call(ctx context.Context, cc *grpc.ClientConn, md ...string) answer {
	var a answer
	ctx = metadata.AppendToOutgoingContext(ctx, md...)
	a.err = cc.Invoke(ctx, say, wrapperspb.String("hello"), new(wrapperspb.StringValue),
		grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	return a
}

// open opens a stream that ends with the test.
func open(t testing.TB, cc *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// turn sends a message and receives the answer.
func turn(stream grpc.ClientStream) error {
	if err := stream.SendMsg(wrapperspb.String("hello")); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return stream.RecvMsg(new(wrapperspb.StringValue))
}

// retryInfo returns the delay of the RetryInfo in an error.
func retryInfo(err error) (time.Duration, bool) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

func wantCode(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("the call ended with %v (%v), want %v", got, err, code)
	}
}
