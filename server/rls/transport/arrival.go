package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// The reasons to end a call whose request did not arrive.
var (
	errLate           = errors.New("the request did not arrive in time")
	errTooManyWaiting = errors.New("too many calls wait for their requests")
)

// lateStatus returns the status of a call that ended for one of these reasons.
func lateStatus(cause error) error {
	if errors.Is(cause, errTooManyWaiting) {
		return status.Error(codes.ResourceExhausted, errTooManyWaiting.Error()+"; send it at once")
	}
	return status.Error(codes.DeadlineExceeded, errLate.Error()+"; send it at once")
}

// arrival is a call whose request has not arrived yet. Without a timeout, a client could open calls
// without sending requests, and each would occupy a goroutine and a stream.
type arrival struct {
	timer *time.Timer
	end   context.CancelCauseFunc
	older *arrival // neighbors in arrivals
	newer *arrival
	waits bool // whether it is in arrivals

	id string // the header x-request-id, for logs
}

type arrivalKey struct{}

// maxID is the length of the longest ID of a request that is kept.
const maxID = 128

// requestID returns the ID of a call's request, empty if it has none.
func requestID(ctx context.Context) string {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		return a.id
	}
	return ""
}

// arrivals are the calls whose requests have not arrived, in order of their start.
type arrivals struct {
	mu     sync.Mutex
	oldest *arrival
	newest *arrival
	n      int
}

// add appends a call. If there are more than most calls, it removes and returns the oldest. A
// request normally follows its headers at once, so the request of the oldest call is the least
// likely to arrive.
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

// remove removes a call if it is in the list.
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

// expect starts the timeout of a call whose headers have arrived. It is a tap of grpc-go. No other
// code may replace the context of a call before its request is read.
//
// expect removes the headers, of which only the trace of the caller and the ID of the request are used, and which would stay in
// memory during the whole call. It refuses a call with many headers, because one byte of HPACK may represent a field that
// takes 100 bytes.
func (s *Server) expect(ctx context.Context, info *tap.Info) (context.Context, error) {
	fields := 0
	for _, values := range info.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return nil, status.Error(codes.ResourceExhausted, fmt.Sprintf("more than %d header fields; leave some out", maxFields))
	}
	if parent := info.Header.Get("traceparent"); s.options.Trace != nil && len(parent) > 0 {
		ctx = s.options.Trace(ctx, parent[0], strings.Join(info.Header.Get("tracestate"), ","))
	}
	a := new(arrival)
	if ids := info.Header.Get("x-request-id"); len(ids) > 0 && len(ids[0]) <= maxID {
		a.id = ids[0]
	}
	clear(info.Header)
	ctx, a.end = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(s.arrive, func() {
		s.arriving.remove(a)
		a.end(errLate)
	})
	if first := s.arriving.add(a, s.mostArriving); first != nil {
		first.timer.Stop()
		first.end(errTooManyWaiting)
	}
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

// arrived stops the timeout. err is the error of reading the request, nil on success. arrived
// returns the error for the client.
func (s *Server) arrived(ctx context.Context, err error) error {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.timer.Stop()
		s.arriving.remove(a)
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errLate) || errors.Is(cause, errTooManyWaiting) {
		return lateStatus(cause)
	}
	return err
}

// arrivingStream is a stream whose first message must arrive before the timeout.
type arrivingStream struct {
	grpc.ServerStream
	server *Server
	begun  bool
}

// RecvMsg receives a message.
func (s *arrivingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.begun {
		return err
	}
	s.begun = true
	return s.server.arrived(s.Context(), err)
}
