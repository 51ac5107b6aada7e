package programs

import (
	"context"
	"crypto/tls"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// RLSClient is a client with one connection.
type RLSClient struct {
	conn *grpc.ClientConn
}

// RLSAnswer is the answer to one request.
type RLSAnswer struct {
	Over     bool
	Statuses []RLSStatus
	Headers  map[string]string // to add to the response
}

// RLSStatus is the answer to one descriptor.
type RLSStatus struct {
	Over      bool
	Limit     uint32 // 0: no limit applies, or it is 0
	Unit      string // unit of the limit; "": no limit applies
	Name      string // name of the limit
	Remaining uint32
	Reset     time.Duration
}

// DialRLS returns a client of a server at HOST:PORT or unix:PATH. It connects at the first request
// and closes at the end of the test. With a nil config the connection is not encrypted.
func DialRLS(t testing.TB, address string, config *tls.Config) *RLSClient {
	t.Helper()
	creds := insecure.NewCredentials()
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	if !strings.HasPrefix(address, "unix:") {
		address = "passthrough:///" + address
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // nothing can get lost
	return &RLSClient{conn}
}

// WithTrace returns the context of a caller whose trace a traceparent names.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return WithHeader(ctx, "traceparent", traceparent)
}

// WithHeader returns the context of a call with a header.
func WithHeader(ctx context.Context, name, value string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, name, value)
}

// Ask sends a request with descriptors of a domain, each in the form KEY=VALUE,KEY=VALUE.
func (c *RLSClient) Ask(ctx context.Context, domain string, descriptors ...string) (RLSAnswer, error) {
	return c.AskFor(ctx, domain, 0, descriptors...)
}

// AskFor is Ask with a number of hits; 0 leaves them out. A descriptor may end with +N, its own
// hits, and then @N/UNIT, its own limit.
func (c *RLSClient) AskFor(ctx context.Context, domain string, hits uint32, descriptors ...string) (RLSAnswer, error) {
	req := &rls.RateLimitRequest{Domain: domain, HitsAddend: hits}
	for _, d := range descriptors {
		one := new(ratelimit.RateLimitDescriptor)
		d, limit, limited := strings.Cut(d, "@")
		d, own, counted := strings.Cut(d, "+")
		if limited {
			requests, unit, _ := strings.Cut(limit, "/")
			one.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: number(requests), Unit: types.RateLimitUnit(types.RateLimitUnit_value[unit]),
			}
		}
		if counted {
			one.HitsAddend = wrapperspb.UInt64(uint64(number(own)))
		}
		for entry := range strings.SplitSeq(d, ",") {
			key, value, _ := strings.Cut(entry, "=")
			one.Entries = append(one.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		req.Descriptors = append(req.Descriptors, one)
	}
	resp, err := rls.NewRateLimitServiceClient(c.conn).ShouldRateLimit(ctx, req)
	if err != nil {
		return RLSAnswer{}, err
	}
	a := RLSAnswer{Over: resp.OverallCode == rls.RateLimitResponse_OVER_LIMIT, Headers: map[string]string{}}
	for _, s := range resp.Statuses {
		one := RLSStatus{
			Over: s.Code == rls.RateLimitResponse_OVER_LIMIT, Limit: s.CurrentLimit.GetRequestsPerUnit(), Name: s.CurrentLimit.GetName(),
			Remaining: s.LimitRemaining, Reset: s.DurationUntilReset.AsDuration(),
		}
		if s.CurrentLimit != nil {
			one.Unit = s.CurrentLimit.Unit.String()
		}
		a.Statuses = append(a.Statuses, one)
	}
	for _, h := range resp.ResponseHeadersToAdd {
		a.Headers[h.Key] = h.Value + string(h.RawValue)
	}
	return a, nil
}

// number parses a number; 0 if there is none.
func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// StatusCode returns the numeric status of a gRPC error; 0 for nil.
func StatusCode(err error) uint32 { return uint32(status.Code(err)) }

// StatusMessage returns the text of a gRPC error.
func StatusMessage(err error) string { return status.Convert(err).Message() }

// Healthy returns the health of a service.
func (c *RLSClient) Healthy(ctx context.Context, service string) (bool, error) {
	resp, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, err
}

// Services returns by reflection the names of all services, and the file that describes one of
// them.
func (c *RLSClient) Services(ctx context.Context, symbol string) (names []string, file []byte, err error) {
	stream, err := grpc_reflection_v1.NewServerReflectionClient(c.conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	ask := func(req *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		if err == nil {
			err = stream.Send(req)
		}
		var resp *grpc_reflection_v1.ServerReflectionResponse
		if err == nil {
			resp, err = stream.Recv()
		}
		return resp
	}
	list := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	described := ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
	})
	for _, f := range described.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file = append(file, f...)
	}
	return names, file, err
}
