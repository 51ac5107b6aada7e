package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"stint/internal/system"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule"
)

// Server limits the calls of a gRPC server: its methods Unary and Stream are the interceptors. It
// is safe for concurrent use and can be used by several gRPC servers.
type Server struct {
	asker   asker
	limiter *limiter.Limiter
	options Options
	presets web.Presets
	exempt  map[string]bool // exempt services
	pool    sync.Pool       // of *scratch
}

var (
	_ grpc.UnaryServerInterceptor  = (*Server)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Server)(nil).Stream
)

// asker decides calls by their limits.
type asker interface {
	// ask decides c and stores the result in s. The error is the reason why it could not be
	// decided.
	ask(c *call, s *scratch) (request.Outcome, error)

	// OnFailure returns the policy to apply if the store failed, and its rule.
	OnFailure(s *request.Scratch) (rule.Failure, *rule.Rule)

	response.Namer
}

// scratch is the memory for one decision.
type scratch struct {
	request.Scratch
	policies []web.Policy
	fields   web.Fields
}

func newServer(a asker, l *limiter.Limiter, o Options) *Server {
	if o.Headers == nil {
		o.Headers = []rule.Preset{rule.IETF, rule.Legacy}
	}
	if o.Exempt == nil {
		o.Exempt = DefaultExempt()
	}
	o.Message = cmp.Or(o.Message, DefaultMessage)
	o.NeverMessage = cmp.Or(o.NeverMessage, DefaultNeverMessage)
	s := &Server{asker: a, limiter: l, options: o, presets: response.Presets(o.Headers), exempt: make(map[string]bool)}
	for _, service := range o.Exempt {
		s.exempt[service] = true
	}
	s.pool.New = func() any { return new(scratch) }
	return s
}

func finder(o *Options) *web.ClientFinder {
	return web.NewClientFinder(web.TrustConfig{Trusted: o.Trusted, TrustLocal: o.TrustUnixSocket, Header: o.ForwardedHeader})
}

// Unary passes a call to its handler if its limits allow it.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !s.limits(ctx, info.FullMethod) {
		return next(ctx, req)
	}
	c := newCall(ctx, info.FullMethod)
	c.message, c.answers = req, true
	open, err := s.admit(c, true)
	if err != nil {
		return nil, err
	}
	if open == nil {
		return next(ctx, req)
	}
	var answer any
	err = open.serve(func() (err error) {
		answer, err = next(ctx, req)
		return err
	})
	return answer, err
}

// Stream passes a stream to its handler if its limits allow it.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := stream.Context()
	if !s.limits(ctx, info.FullMethod) {
		return next(srv, stream)
	}
	c := newCall(ctx, info.FullMethod)
	c.answers = true
	open, err := s.admit(c, true)
	if err != nil {
		return err
	}
	serve := func() error { return next(srv, stream) }
	if s.options.EachMessage {
		counted := &countedStream{ServerStream: stream, server: s, method: info.FullMethod}
		serve = func() error {
			err := next(srv, counted)
			// If a message was denied, return that error even if the handler treated it as the end
			// of the stream.
			return cmp.Or(counted.refused(), err)
		}
	}
	if open == nil {
		return serve()
	}
	return open.serve(serve)
}

// countedStream charges each received message except the first.
type countedStream struct {
	grpc.ServerStream
	server *Server
	method string

	begun bool // used only by the receiving goroutine

	mu     sync.Mutex
	denied error // error that ended the stream
}

// RecvMsg receives a message if the limits allow it.
func (c *countedStream) RecvMsg(m any) error {
	if err := c.refused(); err != nil {
		return err
	}
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !c.begun {
		c.begun = true
		return nil
	}
	one := newCall(c.Context(), c.method)
	one.message = m
	_, err := c.server.admit(one, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = err
	return err
}

func (c *countedStream) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied
}

// limits reports whether calls of a method are limited.
func (s *Server) limits(ctx context.Context, method string) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return !s.exempt[service] && (s.options.Skip == nil || !s.options.Skip(ctx, method))
}

// admit decides a call and waits for its delay. If show is set, it sends the metadata of an allowed
// call; messages have none. It returns the error of a denied call. If the first result is not nil,
// the caller must settle it with the final status.
func (s *Server) admit(c *call, show bool) (*reserved, error) {
	m := s.pool.Get().(*scratch)
	what, err := s.asker.ask(c, m)
	watched := what == request.Decided && m.Verdict.Reserved()
	err = s.enter(c, m, what, err)
	if err == nil && show {
		s.show(c, m, what)
	}
	if !watched {
		s.release(m)
		return nil, err
	}
	r := &reserved{s, c, m}
	if err != nil {
		r.settle(httpStatus(err))
		return nil, err
	}
	return r, nil
}

// release puts the memory of a decision into the pool.
func (s *Server) release(m *scratch) {
	m.Clear()
	s.pool.Put(m)
}

// enter returns the error of a call with this outcome; nil if it may pass.
func (s *Server) enter(c *call, m *scratch, what request.Outcome, err error) error {
	switch what {
	case request.Undecided:
		return s.failed(c, m, err)
	case request.NoLimit:
		return nil
	case request.Unidentified:
		return status.Error(codes.PermissionDenied, "The sender of this request is unknown.")
	case request.Invalid:
		if errors.Is(err, rule.ErrKey) {
			return status.Error(codes.Unauthenticated, "The API key is not valid.")
		}
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if m.Verdict.Listed != nil {
		if m.Verdict.Allowed {
			return nil
		}
		return s.refuseListed(c, m)
	}
	if m.Verdict.Unmatched && !m.Verdict.Allowed {
		return s.end(c, m, metadata.MD{}, status.Error(codes.ResourceExhausted, "No limit applies to this call, and such calls are refused."))
	}
	if m.Verdict.Penalized {
		return s.refusePenalized(c, m)
	}
	var denied int
	m.policies, denied = response.Policies(m.policies, &m.Verdict, s.presets, s.asker)
	if response.StoreUnavailable(&m.Verdict) {
		return s.unavailable(c, m)
	}
	if !m.Verdict.Allowed {
		return s.refuse(c, m, denied)
	}
	left, err := response.Delay(c.ctx, s.limiter, &m.Verdict)
	if err != nil {
		s.report(c, err)
	}
	switch {
	case left <= 0:
		return nil
	case c.ctx.Err() != nil:
		return status.FromContextError(c.ctx.Err()).Err()
	}
	return s.refuse(c, m, response.DenyDelayed(m.policies, &m.Verdict, left))
}

// show sets the metadata of an allowed call, unless its headers were sent already.
func (s *Server) show(c *call, m *scratch, what request.Outcome) {
	md := metadata.MD{}
	if what == request.Decided && m.Verdict.Listed == nil {
		m.fields.Answer(m.policies, -1, s.options.Reset)
		md = fieldsOf(&m.fields)
	}
	switch what {
	case request.Decided:
		s.name(md, m)
	case request.Undecided:
		s.degraded(md, m)
	default:
		return
	}
	if m.Verdict.Over && s.options.OverHeader != "" {
		md.Set(s.options.OverHeader, "true")
	}
	if len(md) == 0 {
		return
	}
	if err := grpc.SetHeader(c.ctx, md); err != nil {
		s.report(c, err)
	}
}

// sleep waits for d. If ctx would end earlier, it returns an error immediately.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	if !system.Wait(ctx, d) {
		return ctx.Err()
	}
	return nil
}
