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

	// The descriptors that reflection shows.
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

// healthNames are the services whose health is told: the server itself, what
// envoyproxy/ratelimit calls itself, and the protocol.
var healthNames = [...]string{"", "ratelimit", service}

// Server answers Envoy's rate limit protocol over gRPC, gRPC health checks and, where it
// is switched on, reflection. Its life is New, Serve, Drain. It is safe for concurrent use.
//
// A call whose answer is to be held, because its limit spaces requests, waits here; if
// its client leaves meanwhile, what was taken is given back. A call that panics is
// answered with INTERNAL, and the others go on.
type Server struct {
	handler   *rls.Handler
	options   Options
	health    *health.Server
	exchanges sync.Pool // of *exchange
	inFlight  atomic.Int64
	calls     atomic.Uint64
	arriving  arrivals
	streams   streams

	arrive       time.Duration // how long the request of a call may take to arrive
	mostArriving int           // how many calls may wait for theirs

	mu    sync.Mutex   // guards what follows
	grpc  *grpc.Server // once somebody serves
	ended bool         // Drain was called
	conns []*conns
}

// exchange is the memory of one call.
type exchange struct {
	server  *Server
	request []byte
	call    rls.Call
	reply   []byte // in call's memory
}

// maxKept is the largest request whose memory waits for the next call.
const maxKept = 64 << 10

// release keeps the memory of a call for the next one, unless that is much.
func (x *exchange) release() {
	x.reply = nil
	if cap(x.request) <= maxKept && x.call.KeepsLittle() {
		x.server.exchanges.Put(x)
	}
}

// New returns a server that puts calls to h. It is not healthy before it is told so.
func New(h *rls.Handler, options Options) *Server {
	s := &Server{handler: h, options: options.withDefaults(), health: health.NewServer(), arrive: arrive, mostArriving: mostArriving}
	s.exchanges.New = func() any { return &exchange{server: s} }
	s.Ready(false)
	return s
}

// newServer returns grpc-go's server, whose workers run from now on.
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
		// Of health and reflection; calls of the protocol pass no interceptor.
		grpc.UnaryInterceptor(s.guardUnary), grpc.StreamInterceptor(s.guardStream),
	}
	if o.TLS != nil {
		list = append(list, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return list
}

// Ready says whether the server is healthy, to those who ask and those who watch.
func (s *Server) Ready(yes bool) {
	now := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		now = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		s.health.SetServingStatus(name, now)
	}
}

// Calls returns how many calls there were.
func (s *Server) Calls() uint64 { return s.calls.Load() }

// Serve answers the connections of l until Drain, which makes it return nil.
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

// begin notes that connections are accepted; nil: it is too late.
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

// end notes that the end has begun, and returns what has to be ended, nil for nothing.
func (s *Server) end() *grpc.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.grpc
}

// Drain accepts no more connections, asks the clients of those there are to go away and
// waits for their calls until ctx is done. Then it cuts them and says so. Clients that
// have not said hello are gone after silent, and those that do not go away a second later.
// It does not linger: clients are told before their next call.
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
			patience.Reset(deaf)
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

// shouldRateLimit answers one call.
func shouldRateLimit(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (answer any, err error) { //nolint:revive // the order of grpc.MethodDesc
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
	if x.reply, err = s.handler.Decide(ctx, &x.call, x.request); err == nil {
		err = s.hold(ctx, x)
	}
	if err != nil {
		x.release()
		return nil, asStatus(err)
	}
	return x, nil // the codec gives it back
}

// hold waits as long as the answer is to be held.
func (s *Server) hold(ctx context.Context, x *exchange) error {
	wait := x.call.Hold()
	if wait <= 0 {
		return nil
	}
	if !system.Wait(ctx, wait) {
		s.handler.Abandon(context.WithoutCancel(ctx), &x.call)
		return ctx.Err()
	}
	return nil
}

// asStatus returns an error as gRPC tells it.
func asStatus(err error) error {
	if e, ok := errors.AsType[*rls.Error](err); ok {
		return status.Error(codes.Code(e.Code), e.Message)
	}
	return status.FromContextError(err).Err()
}

// survive answers a call that panics. It is deferred.
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

// codec takes the bytes of exchanges as they are; the messages of health and reflection
// go through the codec of protobuf.
type codec struct{ encoding.CodecV2 }

// Unmarshal takes a request, which it copies, because the memory is grpc-go's.
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

// Marshal takes an answer, which it copies, because grpc-go writes it later, and gives
// the memory of the call to the next one.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	x, ok := v.(*exchange)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	out := mem.BufferSlice{append(mem.SliceBuffer(nil), x.reply...)}
	x.release()
	return out, nil
}
