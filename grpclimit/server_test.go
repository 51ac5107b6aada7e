package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"stint"
	"stint/grpclimit"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

const alice, bob from = "192.0.2.1:1000", "192.0.2.2:1000"

func TestAnswers(t *testing.T) {
	c := &clock{now: 1_767_225_600_000_000}
	l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: 3 * time.Second})
	cc := serve(t, grpclimit.Limit(c.store(), l, grpclimit.Options{}))(alice)

	a := call(t.Context(), cc)
	wantCode(t, a.err, codes.OK)
	for key, want := range map[string]string{
		"ratelimit": `"2/3s";r=1;t=2`, "ratelimit-policy": `"2/3s";q=2;w=3`,
		"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "1767225602",
	} {
		if got := strings.Join(a.header.Get(key), " and "); got != want {
			t.Errorf("%s of an allowed call is %s, want %s", key, got, want)
		}
	}
	call(t.Context(), cc)
	c.pass(400 * time.Microsecond)

	a = call(t.Context(), cc)
	wantCode(t, a.err, codes.ResourceExhausted)
	// 1.4996 s: RetryInfo is rounded up to milliseconds, the text and the metadata to seconds.
	if d, ok := retryInfo(a.err); !ok || d != 1500*time.Millisecond {
		t.Errorf("RetryInfo says %v, %v; want 1.5s", d, ok)
	}
	if got, want := status.Convert(a.err).Message(), "Request quota exceeded. Wait 2 seconds and try again."; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	for key, want := range map[string]string{
		"retry-after": "2", "x-ratelimit-retry-after": "2", "ratelimit": `"2/3s";r=0;t=2`,
		"x-ratelimit-remaining": "0", "grpc-retry-pushback-ms": "1500",
	} {
		if got := strings.Join(a.trailer.Get(key), " and "); got != want {
			t.Errorf("%s of a refusal is %s, want %s", key, got, want)
		}
	}
	c.pass(1500 * time.Millisecond)
	wantCode(t, call(t.Context(), cc).err, codes.OK)
}

func TestNever(t *testing.T) {
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 0, Per: time.Second})
	a := call(t.Context(), serve(t, grpclimit.Limit(new(clock).store(), l, grpclimit.Options{}))(alice))
	wantCode(t, a.err, codes.ResourceExhausted)
	if d, ok := retryInfo(a.err); ok {
		t.Errorf("RetryInfo says %v where waiting never helps", d)
	}
	if got := a.trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
		t.Errorf("the pushback is %v, want -1", got)
	}
	if got := status.Convert(a.err).Message(); got != grpclimit.DefaultNeverMessage {
		t.Errorf("the message is %q", got)
	}
}

// With one unit per key and hour, a second call with the same identity is refused.
func TestIdentity(t *testing.T) {
	type ask struct {
		from from
		md   []string
		want codes.Code
	}
	proxied := grpclimit.Options{TrustUnixSocket: true}
	apiKey := func(m grpclimit.Missing) grpclimit.Options {
		return grpclimit.Options{Key: grpclimit.ByMetadata("X-API-Key"), OnMissing: m}
	}
	for name, test := range map[string]struct {
		options grpclimit.Options
		asks    []ask
	}{
		"by address": {grpclimit.Options{}, []ask{
			{alice, nil, codes.OK},
			{bob, nil, codes.OK},
			{alice, []string{"x-forwarded-for", "198.51.100.9"}, codes.ResourceExhausted},
		}},
		"one /64 is one client": {grpclimit.Options{}, []ask{
			{"[2001:db8::1]:1", nil, codes.OK},
			{"[2001:db8::ffff:2]:1", nil, codes.ResourceExhausted},
			{"[2001:db8:0:1::1]:1", nil, codes.OK},
		}},
		"unknown address": {grpclimit.Options{}, []ask{{"@", nil, codes.PermissionDenied}}},
		"behind a proxy": {proxied, []ask{
			{"@", []string{"x-forwarded-for", "198.51.100.1"}, codes.OK},
			{"@", []string{"x-forwarded-for", "198.51.100.2"}, codes.OK},
			{"@", []string{"x-forwarded-for", "203.0.113.9, 198.51.100.2"}, codes.ResourceExhausted},
		}},
		"by metadata": {apiKey(grpclimit.ByAddress), []ask{
			{alice, []string{"x-api-key", "a"}, codes.OK},
			{alice, []string{"x-api-key", "b"}, codes.OK},
			{bob, []string{"x-api-key", "a"}, codes.ResourceExhausted},
			{alice, nil, codes.OK}, // limited by its address
			{alice, []string{"x-api-key", ""}, codes.ResourceExhausted},
			{alice, []string{"x-api-key", "c", "x-api-key", "d"}, codes.ResourceExhausted},
			{bob, nil, codes.OK},
		}},
		"missing passes": {apiKey(grpclimit.Pass), []ask{{alice, nil, codes.OK}, {alice, nil, codes.OK}}},
		"missing is refused": {apiKey(grpclimit.Refuse), []ask{
			{alice, nil, codes.PermissionDenied},
			{alice, []string{"x-api-key", "a"}, codes.OK},
		}},
		"by method": {grpclimit.Options{Key: grpclimit.ByMethod}, []ask{
			{alice, nil, codes.OK}, {bob, nil, codes.ResourceExhausted},
		}},
		"skipped": {grpclimit.Options{Skip: func(context.Context, string) bool { return true }}, []ask{
			{alice, nil, codes.OK}, {alice, nil, codes.OK},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 1, Per: time.Hour})
			connect := serve(t, grpclimit.Limit(new(clock).store(), l, test.options))
			for i, a := range test.asks {
				if got := call(t.Context(), connect(a.from), a.md...); status.Code(got.err) != a.want {
					t.Errorf("call %d ended with %v, want %v", i, got.err, a.want)
				}
			}
		})
	}
}

// Of many concurrent calls exactly the limit passes.
func TestParallel(t *testing.T) {
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 20, Per: time.Hour})
	cc := serve(t, grpclimit.Limit(new(clock).store(), l, grpclimit.Options{}))(alice)
	var passed, denied atomic.Int64
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			switch err := call(t.Context(), cc).err; status.Code(err) {
			case codes.OK:
				passed.Add(1)
			case codes.ResourceExhausted:
				denied.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if passed.Load() != 20 || denied.Load() != 80 {
		t.Errorf("%d calls passed and %d were denied, want 20 and 80", passed.Load(), denied.Load())
	}
}

func TestPerMethod(t *testing.T) {
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 1, Per: time.Hour})
	cc := serve(t, grpclimit.Limit(new(clock).store(), l, grpclimit.Options{PerMethod: true}))(alice)
	wantCode(t, call(t.Context(), cc).err, codes.OK)
	wantCode(t, call(t.Context(), cc).err, codes.ResourceExhausted)
	wantCode(t, turn(open(t, cc)), codes.OK)
	wantCode(t, turn(open(t, cc)), codes.ResourceExhausted)
}

func TestExempt(t *testing.T) {
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 0, Per: time.Hour})
	for _, test := range []struct {
		exempt []string
		want   codes.Code
	}{
		{nil, codes.OK},
		{[]string{}, codes.ResourceExhausted},
		{[]string{"test.Echo"}, codes.ResourceExhausted},
	} {
		cc := serve(t, grpclimit.Limit(new(clock).store(), l, grpclimit.Options{Exempt: test.exempt}))(alice)
		_, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{})
		wantCode(t, err, test.want)
	}
}

const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: users, per: 1m, requests: 2, headers: [legacy]}
  - key: path
    value: /test.Echo/Chat
    rate_limit: {name: chats, per: 1m, requests: 1}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: X-User, descriptor_key: user}}]
    - actions: [{path: {}}]
`

func TestRules(t *testing.T) {
	cc := serve(t, rules(t, new(clock).store(), file, grpclimit.Options{}))(alice)
	for i, want := range []string{"1", "0"} {
		a := call(t.Context(), cc, "x-user", "ann")
		wantCode(t, a.err, codes.OK)
		if got := a.header.Get("x-ratelimit-remaining"); len(got) != 1 || got[0] != want {
			t.Errorf("call %d: x-ratelimit-remaining is %v, want %s", i, got, want)
		}
		if got := a.header.Get("ratelimit"); len(got) > 0 {
			t.Errorf("the rule did not ask for ratelimit: %v", got)
		}
	}
	wantCode(t, call(t.Context(), cc, "x-user", "ann").err, codes.ResourceExhausted)
	wantCode(t, call(t.Context(), cc, "x-user", "ben").err, codes.OK)
	wantCode(t, call(t.Context(), cc).err, codes.OK) // without a user the rule does not apply
	wantCode(t, turn(open(t, cc)), codes.OK)
	wantCode(t, turn(open(t, cc)), codes.ResourceExhausted)
}

func TestEachMessage(t *testing.T) {
	c := new(clock)
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 3, Per: time.Minute})
	cc := serve(t, grpclimit.Limit(c.store(), l, grpclimit.Options{EachMessage: true}))(alice)
	stream := open(t, cc)
	for range 3 {
		wantCode(t, turn(stream), codes.OK)
	}
	err := turn(stream) // the handler hides the error, the interceptor returns it
	wantCode(t, err, codes.ResourceExhausted)
	if d, ok := retryInfo(err); !ok || d != time.Minute {
		t.Errorf("RetryInfo says %v, %v; want 1m", d, ok)
	}
	if header, err := stream.Header(); err != nil || len(header.Get("ratelimit")) != 1 {
		t.Errorf("the stream began with %v (%v), want ratelimit once", header, err)
	}
	if got := stream.Trailer().Get("retry-after"); len(got) != 1 || got[0] != "60" {
		t.Errorf("retry-after is %v, want 60", got)
	}
}

const lists = `
exempt:
  - {cidrs: [192.0.2.2]}
deny:
  - {header: X-User, values: [eve]}
  - {header: X-User, values: [mallory], status: 429}
`

func TestLists(t *testing.T) {
	connect := serve(t, rules(t, new(clock).store(), file+lists, grpclimit.Options{}))
	for user, want := range map[string]codes.Code{"eve": codes.PermissionDenied, "mallory": codes.ResourceExhausted} {
		a := call(t.Context(), connect(alice), "x-user", user)
		wantCode(t, a.err, want)
		if d, ok := retryInfo(a.err); ok || len(a.trailer.Get("retry-after")) > 0 {
			t.Errorf("%s is told to wait: %v, %v", user, d, a.trailer)
		}
	}
	for range 3 {
		a := call(t.Context(), connect(bob), "x-user", "ann")
		wantCode(t, a.err, codes.OK)
		if got := a.header.Get("x-ratelimit-limit"); len(got) > 0 {
			t.Errorf("an exempt call shows numbers: %v", got)
		}
	}
}

// A retry policy in the client's service config waits as long as the server requests.
func TestRetryPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 7 * time.Second})
		connect := serve(t, grpclimit.Limit(memory.New(memory.Options{}), l, grpclimit.Options{}))
		cc := connect(alice, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 2, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
			"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		began := time.Now()
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the second call took %v, want 7s", took)
		}
		cc.Close()
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: time.Second, Burst: 2})
		cc := serve(t, grpclimit.Limit(memory.New(memory.Options{}), l, grpclimit.Options{}))(alice)
		began := time.Now()
		wantCode(t, call(t.Context(), cc).err, codes.OK)

		// Its deadline is too early: it is refused immediately.
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		a := call(short, cc)
		wantCode(t, a.err, codes.ResourceExhausted)
		if took := time.Since(began); took != 0 {
			t.Errorf("a call that cannot be in time was held for %v", took)
		}
		// It is canceled while it waits.
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, leave)
		wantCode(t, call(gone, cc).err, codes.Canceled)
		synctest.Wait() // until the server has noticed

		// The units of both were given back, so this call is the next.
		wantCode(t, call(t.Context(), cc).err, codes.OK)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the next call passed after %v, want 1s", took)
		}
		cc.Close()
	})
}

// broken is a store that always fails.
type broken struct{}

var errBroken = errors.New("the store is away")

func (broken) Decide(context.Context, *stint.Call) error { return errBroken }

func TestStoreFailure(t *testing.T) {
	for policy, want := range map[rule.Failure]codes.Code{
		rule.Allow: codes.OK, rule.Deny: codes.Unavailable, rule.Local: codes.Unavailable,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			var told error
			options := grpclimit.Options{
				OnStoreFailure: policy,
				OnError:        func(_ context.Context, _ string, err error) { told = err },
			}
			l := limit(t, stint.Spec{Requests: 1, Per: time.Second})
			a := call(t.Context(), serve(t, grpclimit.Limit(broken{}, l, options))(alice))
			wantCode(t, a.err, want)
			if !errors.Is(told, errBroken) {
				t.Errorf("OnError was told %v", told)
			}
			if d, ok := retryInfo(a.err); ok != (want == codes.Unavailable) || ok && d != time.Second {
				t.Errorf("RetryInfo says %v, %v", d, ok)
			}
		})
	}
}

// away is a store whose answers come from failure policies, like one behind a guard.
type away struct{}

func (away) Decide(_ context.Context, call *stint.Call) error {
	call.Results = call.Results[:0]
	for i := range call.Takes {
		d := stint.Decision{Degraded: true, Limit: 1, RetryAfter: time.Second}
		if policy, _ := call.Takes[i].OnFailure(); policy == stint.Allow {
			d = stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit}
		}
		call.Results = append(call.Results, d)
	}
	return nil
}

// The answer of a failure policy differs from that of a limit and has the configured metadata,
// whether the store or the interceptor applied the policy.
func TestDegraded(t *testing.T) {
	l := limit(t, stint.Spec{Requests: 1, Per: time.Second})
	for _, store := range []stint.Store{away{}, broken{}} {
		for policy, want := range map[rule.Failure]codes.Code{rule.Allow: codes.OK, rule.Deny: codes.Unavailable} {
			options := grpclimit.Options{OnStoreFailure: policy, DegradedHeader: "x-degraded"}
			a := call(t.Context(), serve(t, grpclimit.Limit(store, l, options))(alice))
			wantCode(t, a.err, want)
			md := a.header
			if want != codes.OK {
				md = a.trailer
			}
			if got := strings.Join(md.Get("x-degraded"), ","); got != "true" {
				t.Errorf("%T, %v: %q, %v", store, policy, got, md)
			}
			client := grpclimit.NewClient(store, l, grpclimit.ClientOptions{OnStoreFailure: policy})
			wantCode(t, call(t.Context(), serve(t, nil)(alice, paced(client)...)).err, want)
		}
	}
}

func TestDenied(t *testing.T) {
	options := grpclimit.Options{Denied: func(_ context.Context, method string, v *limiter.Verdict) error {
		return status.Error(codes.FailedPrecondition, fmt.Sprint(method, " ", v.RetryAfter))
	}}
	l := limit(t, stint.Spec{Algorithm: stint.FixedWindow, Requests: 1, Per: time.Minute})
	cc := serve(t, grpclimit.Limit(new(clock).store(), l, options))(alice)
	wantCode(t, call(t.Context(), cc).err, codes.OK)
	a := call(t.Context(), cc)
	if got := status.Convert(a.err); got.Code() != codes.FailedPrecondition || got.Message() != say+" 1m0s" {
		t.Errorf("the call ended with %v", got)
	}
}

// Every answer names the policy that decided, and marks calls that passed above their plain limit.
func TestPolicyHeader(t *testing.T) {
	const lending = `
domain: api
exempt:
  - {cidrs: [192.0.2.2]}
descriptors:
  - key: remote_address
    rate_limit: {name: one, requests: 1, per: 1h, headers: none, elastic: {from: all, upto: 300%}}
  - key: pool
    value: all
    rate_limit: {name: all, requests: 2, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	connect := serve(t, rules(t, new(clock).store(), lending, grpclimit.Options{PolicyHeader: "X-Policy", OverHeader: "x-over"}))
	for i, step := range []struct {
		from         from
		policy, over string
		code         codes.Code
	}{
		{alice, `"one"`, "", codes.OK},
		{alice, `"one"`, "true", codes.OK},
		{alice, `"one"`, "", codes.ResourceExhausted},
		{bob, `"api/exempt#1"`, "", codes.OK},
	} {
		a := call(t.Context(), connect(step.from))
		wantCode(t, a.err, step.code)
		md := a.header
		if step.code != codes.OK {
			md = a.trailer
		}
		if policy, over := strings.Join(md.Get("x-policy"), ","), strings.Join(md.Get("x-over"), ","); policy != step.policy || over != step.over {
			t.Errorf("step %d: policy %s, over %q, want %s, %q", i, policy, over, step.policy, step.over)
		}
	}
}
