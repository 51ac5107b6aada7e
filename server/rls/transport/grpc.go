package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	// The descriptors for reflection.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"stint/internal/system"
	"stint/server/rls"
)

// service is the name of the protocol.
const service = "envoy.service.ratelimit.v3.RateLimitService"

// healthNames are the services with a health status: the server itself, the name that
// envoyproxy/ratelimit uses, and the protocol.
var healthNames = [...]string{"", "ratelimit", service}

// Server serves Envoy's rate limit protocol over gRPC, gRPC health checks and, if enabled,
// reflection. Call New, then Serve, then Drain. It is safe for concurrent use.
//
// If a limit spaces requests, the server waits before it sends the answer; if the client
// disconnects meanwhile, the units are given back. A call that panics is answered with INTERNAL and
// does not affect other calls.
type Server struct {
	handler   *rls.Handler
	options   Options
	health    *health.Server
	exchanges sync.Pool // of *exchange
	inFlight  atomic.Int64
	calls     atomic.Uint64
	arriving  arrivals
	streams   streams

	arrive       time.Duration // timeout for the request of a call
	mostArriving int           // maximum number of calls whose requests have not arrived

	mu    sync.Mutex   // guards the fields below
	grpc  *grpc.Server // set by the first Serve
	ended bool         // Drain was called
	conns []*conns
}

// exchange is the memory of one call.
type exchange struct {
	server  *Server
	request []byte
	call    rls.Call
	reply   []byte // part of call's memory
}

// maxKept is the size of the largest request whose memory is kept for the next call, in bytes.
const maxKept = 64 << 10

// release puts the memory of a call into the pool unless it is large.
func (x *exchange) release() {
	x.reply = nil
	if cap(x.request) <= maxKept && x.call.KeepsLittle() {
		x.server.exchanges.Put(x)
	}
}

// New returns a server that passes calls to h. It is not healthy until Ready(true) is called.
func New(h *rls.Handler, options Options) *Server {
	s := &Server{handler: h, options: options.withDefaults(), health: health.NewServer(), arrive: arrive, mostArriving: mostArriving}
	s.exchanges.New = func() any { return &exchange{server: s} }
	s.Ready(false)
	return s
}

// newServer returns a grpc-go server, which starts its workers immediately.
func (s *Server) newServer() *grpc.Server {
	g := grpc.NewServer(s.serverOptions()...)
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
		Metadata:    "envoy/service/ratelimit/v3/rls.proto",
	}, s)
	healthpb.RegisterHealthServer(g, s.health)
	if s.options.Reflection {
		reflection.Register(g)
	}
	return g
}

func (s *Server) serverOptions() []grpc.ServerOption {
	o := &s.options
	list := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.InTapHandle(s.expect),
		grpc.ConnectionTimeout(handshake),
		grpc.NumStreamWorkers(workers),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: o.Keepalive, Timeout: o.KeepaliveTimeout,
			MaxConnectionAge: o.MaxAge, MaxConnectionAgeGrace: o.MaxAgeGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: quickestPing, PermitWithoutStream: true}),
		// For health and reflection; calls of the protocol bypass interceptors.
		grpc.UnaryInterceptor(s.guardUnary), grpc.StreamInterceptor(s.guardStream),
	}
	if o.TLS != nil {
		list = append(list, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return list
}

// Ready sets the health status for checks and watches.
func (s *Server) Ready(yes bool) {
	now := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		now = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		s.health.SetServingStatus(name, now)
	}
}

// Calls returns the number of calls received.
func (s *Server) Calls() uint64 { return s.calls.Load() }

// Serve serves the connections of l. It returns nil after Drain.
func (s *Server) Serve(l net.Listener) error {
	c := newConns(l)
	g := s.begin(c)
	if g == nil {
		return l.Close()
	}
	if err := g.Serve(c); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// begin registers c and returns the grpc-go server; nil after Drain was called.
func (s *Server) begin(c *conns) *grpc.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if s.grpc == nil {
		s.grpc = s.newServer()
	}
	s.conns = append(s.conns, c)
	return s.grpc
}

// end marks the server as ended and returns the grpc-go server to stop; nil if none was started.
func (s *Server) end() *grpc.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.grpc
}

// Drain stops accepting connections, asks clients to disconnect, and waits for their calls until
// ctx is done. Then it closes all connections and returns true. Clients that have not completed the
// greeting are disconnected after silent, and clients that do not react after one more second.
// Drain does not linger, because clients are informed before their next call.
func (s *Server) Drain(ctx context.Context, _, silent time.Duration) (cut bool) {
	s.health.Shutdown()
	g := s.end()
	if g == nil {
		return false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.GracefulStop()
	}()
	patience := time.NewTimer(silent)
	defer patience.Stop()
	for all := false; ; {
		select {
		case <-done:
			return false
		case <-patience.C:
			if !all {
				s.closeConns((*conns).closeSilent)
			} else if s.inFlight.Load() == 0 {
				s.closeConns((*conns).closeAll)
			}
			all = true
			patience.Reset(disconnectGrace)
		case <-ctx.Done():
			s.closeConns((*conns).closeAll)
			g.Stop()
			<-done
			return true
		}
	}
}

func (s *Server) closeConns(end func(*conns)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		end(c)
	}
}

// shouldRateLimit handles one call.
func shouldRateLimit(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (answer any, err error) { //nolint:revive // parameter order of grpc.MethodDesc
	s := srv.(*Server)
	s.calls.Add(1)
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	defer s.survive(&answer, &err)
	x := s.exchanges.Get().(*exchange)
	if err := s.arrived(ctx, read(x)); err != nil {
		x.release()
		return nil, err
	}
	x.call.RequestID = requestID(ctx)
	if x.reply, err = s.handler.Decide(ctx, &x.call, x.request); err == nil {
		err = s.hold(ctx, x)
	}
	if err != nil {
		x.release()
		return nil, asStatus(err)
	}
	return x, nil // the codec releases it
}

// hold waits until the answer may be sent.
func (s *Server) hold(ctx context.Context, x *exchange) error {
	wait := x.call.Delay()
	if wait <= 0 {
		return nil
	}
	if !system.Wait(ctx, wait) {
		s.handler.Abandon(context.WithoutCancel(ctx), &x.call)
		return ctx.Err()
	}
	return nil
}

// asStatus converts an error to a gRPC status.
func asStatus(err error) error {
	if e, ok := errors.AsType[*rls.Error](err); ok {
		return status.Error(codes.Code(e.Code), e.Message)
	}
	return status.FromContextError(err).Err()
}

// survive recovers from a panic and answers the call. It is deferred.
func (s *Server) survive(answer *any, err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	s.options.Log.Error("a call panicked; this is a fault of stint", "panic", fmt.Sprint(cause),
		slog.String("stack", string(debug.Stack())), "hint", "report it with the stack")
	if answer != nil {
		*answer = nil
	}
	*err = status.Error(codes.Internal, "internal error")
}

func (s *Server) guardUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer s.survive(&answer, &err)
	if err := s.arrived(ctx, nil); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Server) guardStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.survive(nil, &err)
	end, err := s.streams.begin(stream.Context())
	if err != nil {
		return s.arrived(stream.Context(), err)
	}
	defer end()
	return next(srv, &arrivingStream{ServerStream: stream, server: s})
}

// codec passes the bytes of exchanges through; messages of health and reflection use the protobuf
// codec.
type codec struct{ encoding.CodecV2 }

// Unmarshal copies a request, because grpc-go reuses the memory.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	x, ok := v.(*exchange)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	n := data.Len()
	if cap(x.request) < n {
		x.request = make([]byte, n, max(n, 256))
	}
	x.request = x.request[:n]
	data.CopyTo(x.request)
	return nil
}

// Marshal copies an answer, because grpc-go writes it later, and then releases the memory of the
// call.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	x, ok := v.(*exchange)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	out := mem.BufferSlice{append(mem.SliceBuffer(nil), x.reply...)}
	x.release()
	return out, nil
}
