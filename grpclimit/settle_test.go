package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/grpclimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
)

// counting returns a limit of five responses in 15 minutes for each address.
func counting(statuses string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: remote_address
    rate_limit: {per: 15m, requests: 5, algorithm: token_bucket, count: responses, statuses: [%s]}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`, statuses)
}

// counted returns limits by a file, and their limiter.
func counted(t testing.TB, store stint.Store, file string, o grpclimit.Options) (*grpclimit.Server, *limiter.Limiter) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(store, table, limiter.Options{})
	return grpclimit.New(l, "api", o), l
}

// left returns the remaining units of the address that incoming uses.
func left(t testing.TB, l *limiter.Limiter) int64 {
	t.Helper()
	var v limiter.Verdict
	look := &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}}
	if err := l.Decide(t.Context(), look, &v); err != nil {
		t.Fatal(err)
	}
	return v.Results[0].Remaining
}

// silent is a stream without messages.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }

// Each code counts as the HTTP status that gateways map it to, for calls and streams.
func TestSettledStatus(t *testing.T) {
	for name, test := range map[string]struct {
		end  func() error
		want int
	}{
		"OK":                  {func() error { return nil }, 200},
		"CANCELED":            {func() error { return status.Error(codes.Canceled, "") }, 499},
		"UNKNOWN":             {func() error { return status.Error(codes.Unknown, "") }, 500},
		"INVALID_ARGUMENT":    {func() error { return status.Error(codes.InvalidArgument, "") }, 400},
		"DEADLINE_EXCEEDED":   {func() error { return status.Error(codes.DeadlineExceeded, "") }, 504},
		"NOT_FOUND":           {func() error { return status.Error(codes.NotFound, "") }, 404},
		"ALREADY_EXISTS":      {func() error { return status.Error(codes.AlreadyExists, "") }, 409},
		"PERMISSION_DENIED":   {func() error { return status.Error(codes.PermissionDenied, "") }, 403},
		"RESOURCE_EXHAUSTED":  {func() error { return status.Error(codes.ResourceExhausted, "") }, 429},
		"FAILED_PRECONDITION": {func() error { return status.Error(codes.FailedPrecondition, "") }, 400},
		"ABORTED":             {func() error { return status.Error(codes.Aborted, "") }, 409},
		"OUT_OF_RANGE":        {func() error { return status.Error(codes.OutOfRange, "") }, 400},
		"UNIMPLEMENTED":       {func() error { return status.Error(codes.Unimplemented, "") }, 501},
		"INTERNAL":            {func() error { return status.Error(codes.Internal, "") }, 500},
		"UNAVAILABLE":         {func() error { return status.Error(codes.Unavailable, "") }, 503},
		"DATA_LOSS":           {func() error { return status.Error(codes.DataLoss, "") }, 500},
		"UNAUTHENTICATED":     {func() error { return status.Error(codes.Unauthenticated, "") }, 401},
		"a code of nobody":    {func() error { return status.Error(77, "") }, 500},
		"wrapped":             {func() error { return fmt.Errorf("oh: %w", status.Error(codes.NotFound, "")) }, 404},
		"a deadline":          {func() error { return context.DeadlineExceeded }, 504},
		"another error":       {func() error { return errors.New("oh") }, 500},
		"a panic":             {func() error { panic("oh") }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			for _, one := range []struct {
				statuses string
				left     int64
			}{{fmt.Sprint(test.want), 4}, {fmt.Sprintf("100-%d, %d-599", test.want-1, test.want+1), 5}} {
				for kind, serve := range map[string]func(context.Context, *grpclimit.Server){
					"call": func(ctx context.Context, s *grpclimit.Server) {
						_, _ = s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: say},
							func(context.Context, any) (any, error) { return nil, test.end() })
					},
					"stream": func(ctx context.Context, s *grpclimit.Server) {
						_ = s.Stream(nil, silent{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: chat},
							func(any, grpc.ServerStream) error { return test.end() })
					},
				} {
					limits, l := counted(t, new(clock).store(), counting(one.statuses), grpclimit.Options{})
					func() {
						defer func() {
							if (recover() != nil) != (name == "a panic") {
								t.Error("whether the handler panics is not seen outside")
							}
						}()
						serve(incoming(t.Context(), nil, false), limits)
					}()
					if got := left(t, l); got != one.left {
						t.Errorf("%s: where %s counts %d are left, want %d", kind, one.statuses, got, one.left)
					}
				}
			}
		})
	}
}

// Of two hundred concurrent wrong guesses five reach the handler, and a right guess gives its unit
// back.
func TestGuesses(t *testing.T) {
	limits, l := counted(t, new(clock).store(), counting("401"), grpclimit.Options{})
	ctx := incoming(t.Context(), nil, false)
	var reached, refused atomic.Int64
	allRefused := make(chan struct{})
	login := func(_ context.Context, req any) (any, error) {
		if req == "right" {
			return nil, nil
		}
		reached.Add(1)
		<-allRefused
		return nil, status.Error(codes.Unauthenticated, "wrong")
	}
	for range 20 {
		if _, err := limits.Unary(ctx, "right", &grpc.UnaryServerInfo{FullMethod: say}, login); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			_, err := limits.Unary(ctx, "wrong", &grpc.UnaryServerInfo{FullMethod: say}, login)
			if status.Code(err) == codes.ResourceExhausted && refused.Add(1) == 195 {
				close(allRefused)
			}
		})
	}
	group.Wait()
	if reached.Load() != 5 || refused.Load() != 195 || left(t, l) != 0 {
		t.Errorf("%d reached the handler, %d were refused, %d are left: want 5, 195, 0", reached.Load(), refused.Load(), left(t, l))
	}
}

// A call whose client disconnected is settled by its final status, with a timeout. If the store
// fails, the units stay charged and OnError is called.
func TestSettlingWithoutClient(t *testing.T) {
	for name, test := range map[string]struct {
		fails bool
		end   error
		left  int64
	}{
		"charged":    {false, status.Error(codes.Unauthenticated, ""), 4},
		"given back": {false, nil, 5},
		"fails":      {true, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			store := settling{t, new(clock).store(), test.fails}
			limits, l := counted(t, store, counting("401"), grpclimit.Options{
				OnError: func(_ context.Context, _ string, err error) { told = append(told, err) },
			})
			ctx, leave := context.WithCancel(incoming(t.Context(), nil, false))
			_, err := limits.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) {
				told = nil // ignore the error of setting headers without a transport
				leave()
				return nil, test.end
			})
			if !errors.Is(err, test.end) {
				t.Errorf("the call ended with %v", err)
			}
			if (len(told) == 1 && errors.Is(told[0], errBroken)) != test.fails {
				t.Errorf("told of %v", told)
			}
			if got := left(t, l); got != test.left {
				t.Errorf("%d are left, want %d", got, test.left)
			}
		})
	}
}

// settling is a store that checks the context of Settle calls, or fails them.
type settling struct {
	t *testing.T
	stint.Store
	fails bool
}

func (s settling) Decide(ctx context.Context, c *stint.Call) error {
	if c.Takes[0].Op == stint.Ask {
		return s.Store.Decide(ctx, c)
	}
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) > time.Second {
		s.t.Errorf("settled by a context with %v, deadline %v", ctx.Err(), deadline)
	}
	if s.fails {
		return errBroken
	}
	return s.Store.Decide(ctx, c)
}

// Over a connection: the unit for opening a stream is settled at its end, by the status that the
// client sees; further messages are charged immediately.
func TestSettledStream(t *testing.T) {
	for name, test := range map[string]struct {
		statuses string
		messages int
		end      codes.Code
		left     int64
	}{
		"charged":              {"200", 3, codes.OK, 2},
		"given back":           {"401", 3, codes.OK, 3},
		"refused in between":   {"429", 5, codes.ResourceExhausted, 0},
		"refused, given back":  {"200", 5, codes.ResourceExhausted, 1},
		"all that was charged": {"200", 5, codes.OK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limits, l := counted(t, new(clock).store(), counting(test.statuses), grpclimit.Options{EachMessage: true})
			stream := open(t, serve(t, limits)(alice))
			for range test.messages {
				wantCode(t, turn(stream), codes.OK)
			}
			if got := left(t, l); got != int64(5-test.messages) {
				t.Errorf("in the middle of it %d are left, want %d", got, 5-test.messages)
			}
			if test.end == codes.OK {
				if err := stream.CloseSend(); err != nil {
					t.Fatal(err)
				}
				if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
					t.Errorf("the stream ends with %v", err)
				}
			} else {
				wantCode(t, turn(stream), test.end)
			}
			if got := left(t, l); got != test.left {
				t.Errorf("%d are left, want %d", got, test.left)
			}
		})
	}
}

// A call is charged the cost in its metadata or message; a call with an invalid cost is refused and
// charged nothing.
func TestCost(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 1000, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
      cost: %s
`
	const byKey = "{header: X-Cost, max: 100}"
	five := wrapperspb.String("abc") // five bytes: tag, length, and three bytes of text
	for name, test := range map[string]struct {
		cost    string
		message any
		md      []string
		left    int64
		code    codes.Code
	}{
		"key":               {byKey, five, []string{"x-cost", "30"}, 970, codes.OK},
		"missing":           {byKey, five, nil, 999, codes.OK},
		"negative":          {byKey, five, []string{"x-cost", "-1"}, 1000, codes.InvalidArgument},
		"huge":              {byKey, five, []string{"x-cost", "1e9"}, 1000, codes.InvalidArgument},
		"zero":              {byKey, five, []string{"x-cost", "0"}, 1000, codes.InvalidArgument},
		"above the most":    {byKey, five, []string{"x-cost", "101"}, 1000, codes.InvalidArgument},
		"no number":         {byKey, five, []string{"x-cost", "abc"}, 1000, codes.InvalidArgument},
		"repeated":          {byKey, five, []string{"x-cost", "1", "x-cost", "2"}, 1000, codes.InvalidArgument},
		"message":           {"{body: 2}", five, nil, 997, codes.OK},
		"a foreign message": {"{body: 2, default: 20}", "abc", nil, 980, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			limits, l := counted(t, new(clock).store(), fmt.Sprintf(file, test.cost), grpclimit.Options{})
			_, err := limits.Unary(incoming(t.Context(), nil, false, test.md...), test.message, &grpc.UnaryServerInfo{FullMethod: say},
				func(context.Context, any) (any, error) { return nil, nil })
			wantCode(t, err, test.code)
			if got := left(t, l); got != test.left {
				t.Errorf("%d are left, want %d", got, test.left)
			}
			if err != nil && test.md[len(test.md)-1] != "2" && status.Convert(err).Message() !=
				fmt.Sprintf("header X-Cost: %q is not a whole number from 1 to 100", test.md[1]) {
				t.Errorf("the message is %q", status.Convert(err).Message())
			}
		})
	}

	// Each message of a stream costs its size; the size of the first message is unknown when the
	// stream is opened.
	limits, l := counted(t, new(clock).store(), fmt.Sprintf(file, "{body: 1, default: 100}"), grpclimit.Options{EachMessage: true})
	stream := open(t, serve(t, limits)(alice))
	for range 3 {
		wantCode(t, turn(stream), codes.OK) // "hello"
	}
	if got := left(t, l); got != 1000-100-2*7 {
		t.Errorf("%d are left, want 886", got)
	}
}

// A refusal is an answer too, to limits that are decided by themselves.
func TestSettledRefusal(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    shadow_mode: true
    rate_limit: {per: 15m, requests: 5, count: responses, statuses: [%s]}
  - key: path
    rate_limit: {per: 15m, requests: 0}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
`
	for statuses, want := range map[string]int64{"429": 4, "200": 5} {
		limits, l := counted(t, new(clock).store(), fmt.Sprintf(file, statuses), grpclimit.Options{})
		if code := pass(incoming(t.Context(), nil, false), limits); code != codes.ResourceExhausted {
			t.Errorf("the call ended with %v", code)
		}
		if got := left(t, l); got != want {
			t.Errorf("where %s counts %d are left, want %d", statuses, got, want)
		}
	}
}
