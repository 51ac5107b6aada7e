package loadtest

import (
	"context"
	"errors"
	"sync/atomic"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// grpcConnections is how many connections all callers share, as the workers of an Envoy do.
const grpcConnections = 4

// rlsTarget calls Envoy's rate limit service.
type rlsTarget struct {
	conns   []*grpc.ClientConn
	next    atomic.Uint32
	domain  string
	entries []rlsEntry
	token   string
}

type rlsEntry struct {
	key   string
	value phrase
}

// NewRLS returns a target that calls ShouldRateLimit of the service at HOST:PORT.
func NewRLS(address string, d Descriptor, o Options) (Target, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	t := &rlsTarget{domain: d.Domain, token: o.Token}
	for _, e := range d.Entries {
		t.entries = append(t.entries, rlsEntry{e.Key, newPhrase(e.Value, o.Prefix)})
	}
	for range grpcConnections {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.conns = append(t.conns, conn)
	}
	return t, nil
}

// Caller returns a caller on the next connection.
func (t *rlsTarget) Caller() Caller {
	conn := t.conns[int(t.next.Add(1))%len(t.conns)]
	return &rlsCaller{target: t, client: rls.NewRateLimitServiceClient(conn)}
}

// Close closes the connections.
func (t *rlsTarget) Close() error {
	var errs []error
	for _, c := range t.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type rlsCaller struct {
	target *rlsTarget
	client rls.RateLimitServiceClient
}

// Close does nothing: the connections are shared.
func (c *rlsCaller) Close() error { return nil }

// Ask calls ShouldRateLimit.
func (c *rlsCaller) Ask(ctx context.Context, key int, cost uint32) (Answer, error) {
	d := &ratelimit.RateLimitDescriptor{}
	for _, e := range c.target.entries {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.key, Value: e.value.text(key)})
	}
	if c.target.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.target.token)
	}
	resp, err := c.client.ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: c.target.domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}, HitsAddend: cost,
	})
	if err != nil {
		return Answer{}, err
	}
	switch resp.GetOverallCode() {
	case rls.RateLimitResponse_OK:
		return Answer{Allowed: true}, nil
	case rls.RateLimitResponse_OVER_LIMIT:
		return Answer{}, nil
	}
	return Answer{}, errors.New("the answer has no code")
}
