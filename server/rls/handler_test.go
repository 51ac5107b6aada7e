package rls

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// zero is the start time of tests: 30 s after a full minute.
var zero = stint.At(time.Date(2026, 5, 1, 12, 30, 30, 0, time.UTC))

// desk is a handler with a fake clock.
type desk struct {
	*Handler
	now  stint.Instant
	call Call
}

func newDesk(t testing.TB, files string, o Options) *desk {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(files)})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{now: zero}
	d.Handler = New(limiter.New(memory.New(memory.Options{Clock: func() stint.Instant { return d.now }}), table, limiter.Options{}), o)
	return d
}

// request returns a request of domain api with one descriptor of one entry for each pair.
func request(pairs ...string) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "api"}
	for i := 0; i < len(pairs); i += 2 {
		req.Descriptors = append(req.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}}})
	}
	return req
}

// ask sends a request to the handler, encoding and decoding the messages.
func (d *desk) ask(ctx context.Context, t testing.TB, req *pb.RateLimitRequest) (*pb.RateLimitResponse, *Error) {
	t.Helper()
	data, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.Decide(ctx, &d.call, data)
	if failure, ok := errors.AsType[*Error](err); ok {
		return nil, failure
	}
	resp := new(pb.RateLimitResponse)
	if err := proto.Unmarshal(answer, resp); err != nil {
		t.Fatal(err)
	}
	return resp, nil
}

const perMinute = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1000000}
`

// A reused Call does not allocate.
func TestNoAllocations(t *testing.T) {
	if testkit.Race {
		return
	}
	d := newDesk(t, perMinute, Options{})
	data, err := proto.Marshal(request("user", "42"))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := d.Decide(t.Context(), &d.call, data); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

// One handler serves concurrent callers and counts each once.
func TestManyCallers(t *testing.T) {
	const callers, each = 8, 200
	d := newDesk(t, perMinute, Options{Headers: []rule.Preset{rule.IETF, rule.Legacy}, Metadata: true})
	data, err := proto.Marshal(request("user", "42", "x", "y"))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			var c Call
			for range each {
				if _, err := d.Decide(t.Context(), &c, data); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	resp, failure := d.ask(t.Context(), t, request("user", "42"))
	if failure != nil || resp.Statuses[0].LimitRemaining != 1_000_000-callers*each-1 {
		t.Errorf("%v, %v", resp, failure)
	}
}

// For any input, the handler returns an error or an answer that the generated types can decode.
func FuzzHandler(f *testing.F) {
	const rules = perMinute + `
    descriptors:
      - key: path
        value: "/a*"
        quota_mode: true
        metadata: {a: {b: [1, x]}}
        rate_limit: {per: 90s, requests: 3, name: x, overdraw: true}
  - key: team
    shadow_mode: true
    rate_limit: [{per: 1s, requests: 3, algorithm: leaky_bucket, burst: 2}, {unit: year, requests_per_unit: 7, replaces: [{name: x}]}]
`
	full := request("user", "42", "team", "x")
	full.Descriptors[0].HitsAddend = wrapperspb.UInt64(2)
	full.Descriptors[1].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: typev3.RateLimitUnit_HOUR, UnitMultiplier: wrapperspb.UInt32(2)}
	full.Descriptors = append(full.Descriptors, &common.RateLimitDescriptor{IsNegativeHits: true, Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "42"}, {Key: "path", Value: "/abc"}}})
	for _, req := range []*pb.RateLimitRequest{request("user", "42"), full} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	d := newDesk(f, rules, Options{Headers: []rule.Preset{rule.IETF, rule.Draft03}, LimitHeaders: LimitHeaders{"a", "b", "c"}, Metadata: true, Grant: 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		answer, err := d.Decide(t.Context(), &d.call, data)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || answer != nil {
				t.Fatal(err)
			}
			return
		}
		resp := new(pb.RateLimitResponse)
		if err := proto.Unmarshal(answer, resp); err != nil {
			t.Fatalf("%x: %v", answer, err)
		}
	})
}

// BenchmarkDecide measures the handler without a network.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(map[int]string{1: "one", 10: "ten"}[n], func(b *testing.B) {
			d := newDesk(b, perMinute, Options{})
			var pairs []string
			for i := range n {
				pairs = append(pairs, "user", string(rune('a'+i)))
			}
			data, err := proto.Marshal(request(pairs...))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decide(b.Context(), &d.call, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
