package transport

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// errLate is why a call ends whose request did not arrive in time.
var errLate = errors.New("the request did not arrive in time")

// lateStatus is what the client of such a call is told.
func lateStatus() error {
	return status.Error(codes.DeadlineExceeded, errLate.Error()+"; send it at once")
}

// arrival is the time that the request of a call has to arrive. A client that opens calls
// and sends nothing would else hold a goroutine and a stream for each, for ever.
type arrival struct{ timer *time.Timer }

type arrivalKey struct{}

// expect begins the time of a call, whose headers have arrived. It is a tap: nothing else
// of grpc-go may give a call another context before its request is read.
func (s *Server) expect(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, end := context.WithCancelCause(ctx)
	a := &arrival{time.AfterFunc(s.arrive, func() { end(errLate) })}
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

// arrived ends that time. Err is why the request was not read, nil if it was; arrived
// returns what to answer.
func arrived(ctx context.Context, err error) error {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.timer.Stop()
	}
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		return lateStatus()
	}
	return err
}

// arrivingStream is a stream whose first message has to arrive in time.
type arrivingStream struct {
	grpc.ServerStream
	begun bool
}

// RecvMsg reads a message.
func (s *arrivingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.begun {
		return err
	}
	s.begun = true
	return arrived(s.Context(), err)
}
