// Package rlstest asks a server in Envoy's rate limit protocol, as Envoy does, for tests.
package rlstest

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

// Client is one connection.
type Client struct {
	conn *grpc.ClientConn
}

// Answer is what was answered.
type Answer struct {
	Over     bool
	Statuses []Status
	Headers  map[string]string // to add to the response
}

// Status is the answer to one descriptor.
type Status struct {
	Over      bool
	Limit     uint32 // 0: none applies
	Name      string // of that limit
	Remaining uint32
	Reset     time.Duration
}

// Dial returns a client of a server at HOST:PORT or unix:PATH, which ends with the test.
// It connects when it is first asked. Without config the connection is not encrypted.
func Dial(t testing.TB, address string, config *tls.Config) *Client {
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
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // nothing is lost
	return &Client{conn}
}

// Ask asks about descriptors of a domain, each in the form KEY=VALUE,KEY=VALUE.
func (c *Client) Ask(ctx context.Context, domain string, descriptors ...string) (Answer, error) {
	req := &rls.RateLimitRequest{Domain: domain}
	for _, d := range descriptors {
		one := new(ratelimit.RateLimitDescriptor)
		for entry := range strings.SplitSeq(d, ",") {
			key, value, _ := strings.Cut(entry, "=")
			one.Entries = append(one.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		req.Descriptors = append(req.Descriptors, one)
	}
	resp, err := rls.NewRateLimitServiceClient(c.conn).ShouldRateLimit(ctx, req)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Over: resp.OverallCode == rls.RateLimitResponse_OVER_LIMIT, Headers: map[string]string{}}
	for _, s := range resp.Statuses {
		a.Statuses = append(a.Statuses, Status{
			Over: s.Code == rls.RateLimitResponse_OVER_LIMIT, Limit: s.CurrentLimit.GetRequestsPerUnit(), Name: s.CurrentLimit.GetName(),
			Remaining: s.LimitRemaining, Reset: s.DurationUntilReset.AsDuration(),
		})
	}
	for _, h := range resp.ResponseHeadersToAdd {
		a.Headers[h.Key] = h.Value + string(h.RawValue)
	}
	return a, nil
}

// Code returns the number of a gRPC error, as it stands on the wire; 0 for none.
func Code(err error) uint32 { return uint32(status.Code(err)) }

// Message returns the text of a gRPC error.
func Message(err error) string { return status.Convert(err).Message() }

// Healthy asks for the health of a service.
func (c *Client) Healthy(ctx context.Context, service string) (bool, error) {
	resp, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, err
}

// Services asks for the names of all services, by reflection, and for the file that
// describes one.
func (c *Client) Services(ctx context.Context, symbol string) (names []string, file []byte, err error) {
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
