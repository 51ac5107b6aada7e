package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"stint"
	"stint/grpclimit"
	"stint/rule"
	"stint/store/memory"
)

// paced returns dial options with the interceptors of c.
func paced(c *grpclimit.Client) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// bucket allows one call per second without bursts.
var bucket = stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second}

// within runs a test of a client and an unlimited server in fake time.
func within(t *testing.T, spec stint.Spec, o grpclimit.ClientOptions, test func(t *testing.T, cc *grpc.ClientConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := grpclimit.NewClient(memory.New(memory.Options{}), limit(t, spec), o)
		cc := serve(t, nil)(alice, paced(client)...)
		test(t, cc)
		cc.Close()
	})
}

func TestClientWaits(t *testing.T) {
	within(t, bucket, grpclimit.ClientOptions{}, func(t *testing.T, cc *grpc.ClientConn) {
		began := time.Now()
		for i := range 5 {
			wantCode(t, call(t.Context(), cc).err, codes.OK)
			if took := time.Since(began); took != time.Duration(i)*time.Second {
				t.Errorf("call %d went out after %v, want %ds", i, took, i)
			}
		}
	})
}

// Waiting calls are sent in order of arrival, and a canceled call does not delay those behind it.
func TestClientLine(t *testing.T) {
	within(t, bucket, grpclimit.ClientOptions{}, func(t *testing.T, cc *grpc.ClientConn) {
		var (
			mu    sync.Mutex
			order []int
			group sync.WaitGroup
		)
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		began := time.Now()
		gone, leave := context.WithCancel(t.Context())
		for i := range 30 {
			ctx := t.Context()
			if i%3 == 1 || i == 0 {
				ctx = gone
			}
			group.Go(func() {
				err := call(ctx, cc).err
				mu.Lock()
				defer mu.Unlock()
				if ctx == gone {
					wantCode(t, err, codes.Canceled)
					return
				}
				wantCode(t, err, codes.OK)
				order = append(order, i)
			})
			synctest.Wait() // until it waits in the queue
		}
		leave()
		group.Wait()
		if len(order) != 19 || !slices.IsSorted(order) {
			t.Errorf("the calls went out in the order %v", order)
		}
		if took := time.Since(began); took != 19*time.Second {
			t.Errorf("19 calls took %v, want 19s", took)
		}
	})
}

// A call whose deadline is too early does not enter the queue.
func TestClientLate(t *testing.T) {
	slow := stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Minute}
	within(t, slow, grpclimit.ClientOptions{}, func(t *testing.T, cc *grpc.ClientConn) {
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		patient := make(chan error)
		go func() { patient <- call(t.Context(), cc).err }()
		synctest.Wait() // until it waits in the queue
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		err := call(short, cc).err
		var refusal *grpclimit.Refusal
		if !errors.As(err, &refusal) || refusal.RetryAfter != time.Minute || time.Since(began) != 0 {
			t.Errorf("the call ended with %v after %v, want a refusal for 1m at once", err, time.Since(began))
		}
		wantCode(t, <-patient, codes.OK)
	})
}

func TestClientRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		options grpclimit.ClientOptions
		spec    stint.Spec
		within  time.Duration // the deadline; 0 for none
		retry   time.Duration
	}{
		"fail fast":               {grpclimit.ClientOptions{FailFast: true}, bucket, 0, time.Second},
		"a deadline too near":     {grpclimit.ClientOptions{}, bucket, 999 * time.Millisecond, time.Second},
		"never":                   {grpclimit.ClientOptions{}, stint.Spec{Algorithm: stint.FixedWindow, Per: time.Second}, 0, stint.Never},
		"a delay, fail fast":      {grpclimit.ClientOptions{FailFast: true}, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: time.Second, Burst: 1}, 0, time.Second},
		"a delay, a deadline too": {grpclimit.ClientOptions{}, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: time.Second, Burst: 1}, time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, test.spec, test.options, func(t *testing.T, cc *grpc.ClientConn) {
				_ = call(t.Context(), cc) // the first call passes if any does
				ctx, began := t.Context(), time.Now()
				if test.within > 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, test.within)
					defer cancel()
				}
				for range 2 { // the refused call was charged nothing
					err := call(ctx, cc).err
					wantCode(t, err, codes.ResourceExhausted)
					var refusal *grpclimit.Refusal
					if !errors.As(err, &refusal) || refusal.RetryAfter != test.retry || refusal.Paused {
						t.Errorf("the call ended with %#v (%v), want a refusal for %v", err, err, test.retry)
					}
					if d, ok := retryInfo(err); ok != (test.retry != stint.Never) || ok && d != test.retry {
						t.Errorf("RetryInfo says %v, %v", d, ok)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("the refusals took %v", took)
				}
			})
		})
	}
}

func TestClientKey(t *testing.T) {
	options := grpclimit.ClientOptions{
		FailFast: true,
		Key:      func(_ context.Context, target, method string) string { return fmt.Sprint(target, method) },
	}
	within(t, bucket, options, func(t *testing.T, cc *grpc.ClientConn) {
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		wantCode(t, turn(open(t, cc)), codes.OK)
		wantCode(t, call(t.Context(), cc).err, codes.ResourceExhausted)
	})
}

func TestClientEachMessage(t *testing.T) {
	within(t, bucket, grpclimit.ClientOptions{EachMessage: true}, func(t *testing.T, cc *grpc.ClientConn) {
		began := time.Now()
		stream := open(t, cc)
		for range 4 {
			wantCode(t, turn(stream), codes.OK)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("4 messages took %v, want 3s", took)
		}
	})
}

// plenty never delays a call; only the server does.
var plenty = stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}

// A pause lasts as long as the server requests, up to MaxPause, for all unusual requests.
func TestClientPausesOddly(t *testing.T) {
	for name, test := range map[string]struct {
		retry *durationpb.Duration
		want  time.Duration
	}{
		"none":               {nil, 0},
		"negative":           {&durationpb.Duration{Seconds: -5}, 0},
		"too many nanos":     {&durationpb.Duration{Nanos: math.MaxInt32}, math.MaxInt32},
		"ten thousand years": {&durationpb.Duration{Seconds: 315_576_000_000}, time.Minute},
		"no duration at all": {&durationpb.Duration{Seconds: math.MaxInt64}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					t.Fatal(err)
				}
				defer cc.Close()
				refused, err := status.New(codes.ResourceExhausted, "no").WithDetails(&errdetails.RetryInfo{RetryDelay: test.retry})
				if err != nil {
					t.Fatal(err)
				}
				client := grpclimit.NewClient(memory.New(memory.Options{}), limit(t, plenty), grpclimit.ClientOptions{})
				ask := func(answer error) error {
					return client.Unary(t.Context(), "/a.B/C", nil, nil, cc, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
						return answer
					})
				}
				wantCode(t, ask(refused.Err()), codes.ResourceExhausted)
				began := time.Now()
				wantCode(t, ask(nil), codes.OK)
				if took := time.Since(began); took != test.want {
					t.Errorf("the next call went out after %v, want %v", took, test.want)
				}
			})
		})
	}
}

func TestClientPauses(t *testing.T) {
	for name, test := range map[string]struct {
		max  time.Duration
		want []time.Duration // when each call was answered, after the first was refused
		code codes.Code      // code of the second call
	}{
		"as told":    {0, []time.Duration{30 * time.Second, 30 * time.Second}, codes.OK},
		"at most":    {10 * time.Second, []time.Duration{10 * time.Second, 20 * time.Second}, codes.ResourceExhausted},
		"not at all": {-1, []time.Duration{0, 0}, codes.ResourceExhausted},
	} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.New(memory.Options{})
					l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Minute})
					client := grpclimit.NewClient(store, limit(t, plenty), grpclimit.ClientOptions{MaxPause: test.max})
					cc := serve(t, grpclimit.Limit(store, l, grpclimit.Options{}))(alice, paced(client)...)
					ask := func() error {
						if streams {
							return turn(open(t, cc))
						}
						return call(t.Context(), cc).err
					}
					wantCode(t, ask(), codes.OK)
					wantCode(t, ask(), codes.OK)
					wantCode(t, ask(), codes.ResourceExhausted)
					began := time.Now()
					short, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					var refusal *grpclimit.Refusal
					if err := call(short, cc).err; test.max >= 0 && (!errors.As(err, &refusal) || !refusal.Paused) {
						t.Errorf("a call whose deadline comes in the pause ended with %v", err)
					}
					for i, want := range test.want {
						err := ask()
						if i == 0 {
							wantCode(t, err, test.code)
						}
						if took := time.Since(began); took != want {
							t.Errorf("call %d was answered after %v, want %v", i, took, want)
						}
					}
					cc.Close()
				})
			})
		}
	}
}

func TestClientStoreFailure(t *testing.T) {
	for policy, want := range map[rule.Failure]codes.Code{rule.Allow: codes.OK, rule.Deny: codes.Unavailable} {
		var told error
		client := grpclimit.NewClient(broken{}, limit(t, bucket), grpclimit.ClientOptions{
			OnStoreFailure: policy,
			OnError:        func(_ context.Context, _ string, err error) { told = err },
		})
		wantCode(t, call(t.Context(), serve(t, nil)(alice, paced(client)...)).err, want)
		if !errors.Is(told, errBroken) {
			t.Errorf("OnError was told %v", told)
		}
	}
}
