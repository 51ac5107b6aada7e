package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Why a call ends whose request did not arrive.
var (
	errLate    = errors.New("the request did not arrive in time")
	errCrowded = errors.New("too many calls wait for their requests")
)

// lateStatus returns what to answer to such a call.
func lateStatus(cause error) error {
	if errors.Is(cause, errCrowded) {
		return status.Error(codes.ResourceExhausted, errCrowded.Error()+"; send it at once")
	}
	return status.Error(codes.DeadlineExceeded, errLate.Error()+"; send it at once")
}

// arrival is a call that waits for its request. A client that opens calls and sends nothing
// would else hold a goroutine and a stream for each, for ever.
type arrival struct {
	timer *time.Timer
	end   context.CancelCauseFunc
	older *arrival // its neighbours in arrivals
	newer *arrival
	waits bool // it is in arrivals
}

type arrivalKey struct{}

// arrivals holds the calls that wait for their requests, in the order in which they began.
type arrivals struct {
	mu     sync.Mutex
	oldest *arrival
	newest *arrival
	n      int
}

// add appends a call. If there are more than most then, it removes the oldest and returns it:
// a request follows its headers at once, so the oldest is the least likely to get one.
func (l *arrivals) add(a *arrival, most int) *arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.older, a.waits = l.newest, true
	if l.newest != nil {
		l.newest.newer = a
	} else {
		l.oldest = a
	}
	l.newest = a
	l.n++
	if l.n <= most {
		return nil
	}
	first := l.oldest
	l.removeLocked(first)
	return first
}

// remove removes a call, if it is still there.
func (l *arrivals) remove(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.waits {
		l.removeLocked(a)
	}
}

func (l *arrivals) removeLocked(a *arrival) {
	if a.older != nil {
		a.older.newer = a.newer
	} else {
		l.oldest = a.newer
	}
	if a.newer != nil {
		a.newer.older = a.older
	} else {
		l.newest = a.older
	}
	a.older, a.newer, a.waits = nil, nil, false
	l.n--
}

// expect begins the time of a call, whose headers have arrived. It is a tap: nothing else
// of grpc-go may give a call another context before its request is read.
//
// Nobody reads the headers of calls. expect drops them, as they would live as long as the
// call, and refuses a call with many: one byte of HPACK may stand for a field that costs 100.
func (s *Server) expect(ctx context.Context, info *tap.Info) (context.Context, error) {
	fields := 0
	for _, values := range info.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return nil, status.Error(codes.ResourceExhausted, fmt.Sprintf("more than %d header fields; leave some out", maxFields))
	}
	clear(info.Header)
	ctx, end := context.WithCancelCause(ctx)
	a := &arrival{end: end}
	a.timer = time.AfterFunc(s.arrive, func() {
		s.arriving.remove(a)
		end(errLate)
	})
	if first := s.arriving.add(a, s.mostArriving); first != nil {
		first.timer.Stop()
		first.end(errCrowded)
	}
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

// arrived ends that time. Err is why the request was not read, nil if it was; arrived
// returns what to answer.
func (s *Server) arrived(ctx context.Context, err error) error {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.timer.Stop()
		s.arriving.remove(a)
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errLate) || errors.Is(cause, errCrowded) {
		return lateStatus(cause)
	}
	return err
}

// arrivingStream is a stream whose first message has to arrive in time.
type arrivingStream struct {
	grpc.ServerStream
	server *Server
	begun  bool
}

// RecvMsg reads a message.
func (s *arrivingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.begun {
		return err
	}
	s.begun = true
	return s.server.arrived(s.Context(), err)
}
