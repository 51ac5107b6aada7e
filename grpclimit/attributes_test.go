package grpclimit_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"stint"
	"stint/grpclimit"
	"stint/rule"
)

// incoming returns the context of a call in a server; md are pairs of key and value.
func incoming(ctx context.Context, cert *x509.Certificate, verified bool, md ...string) context.Context {
	info := credentials.TLSInfo{}
	if cert != nil {
		info.State = tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	if verified {
		info.State.VerifiedChains = [][]*x509.Certificate{{cert}}
	}
	p := &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, AuthInfo: info}
	return metadata.NewIncomingContext(peer.NewContext(ctx, p), metadata.Pairs(md...))
}

// pass calls the interceptor directly, without a server.
func pass(ctx context.Context, limits *grpclimit.Server) codes.Code {
	_, err := limits.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: say},
		func(context.Context, any) (any, error) { return nil, nil })
	return status.Code(err)
}

// The values that actions of a rule file read from a call: after one call, a second call with the
// same value is refused, and one with another or no value passes.
func TestAttributes(t *testing.T) {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "cart"}}
	call := func(md ...string) context.Context { return incoming(t.Context(), nil, false, md...) }
	for name, test := range map[string]struct {
		action            string
		one, same, others context.Context
	}{
		"address": {"remote_address: {}", call(), call("a", "b"), metadata.NewIncomingContext(t.Context(), nil)},
		"host": {
			"host: {}", call(":authority", "Shop.example:50051"), call(":authority", "shop.example"),
			call(":authority", "other.example"),
		},
		"authority": {
			"request_headers: {header_name: ':authority', descriptor_key: k}", call(":authority", "a"),
			call(":authority", "a"), call(),
		},
		"header in another case": {
			"request_headers: {header_name: X-Tenant, descriptor_key: k}", call("x-tenant", "a"), call("x-tenant", "a"),
			call("x-tenant", "b"),
		},
		"cookie in the second line": {
			"cookie: {name: id, descriptor_key: k}", call("cookie", "a=b", "cookie", "id=1"), call("cookie", "id=1"),
			call("cookie", "id=2"),
		},
		"certificate": {
			"tls_client_certificate: {part: common_name}", incoming(t.Context(), cert, true), incoming(t.Context(), cert, true),
			incoming(t.Context(), cert, false),
		},
		"device of a proxy": {
			"device: {header: x-device-id, descriptor_key: k}", call("x-device-id", "a"), call("x-device-id", "a"),
			call("x-device-id", "b"),
		},
		"device twice": {
			"first_of: [{device: {header: x-device-id}}, {generic_key: {descriptor_key: k, descriptor_value: v}}]",
			call("x-device-id", "a", "x-device-id", "b"), call(), call("x-device-id", "b"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := map[string]string{
				"address": "remote_address", "host": "host", "certificate": "tls_client_certificate",
			}[name]
			if key == "" {
				key = "k"
			}
			limits := rules(t, new(clock).store(), `
domain: api
descriptors: [{key: `+key+`, rate_limit: {per: 1h, requests: 1}}]
http: {rate_limits: [{actions: [{`+test.action+`}]}]}
`, grpclimit.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
			for i, ask := range []struct {
				ctx  context.Context
				want codes.Code
			}{{test.one, codes.OK}, {test.same, codes.ResourceExhausted}, {test.others, codes.OK}} {
				if got := pass(ask.ctx, limits); got != ask.want {
					t.Errorf("call %d ended with %v, want %v", i, got, ask.want)
				}
			}
		})
	}
}

// Only a trusted proxy can set the device ID.
func TestDeviceOfStranger(t *testing.T) {
	for _, trusted := range []string{"10.0.0.0/8", "2001:db8::/32"} {
		limits := rules(t, new(clock).store(), `
domain: api
descriptors: [{key: device, rate_limit: {per: 1h, requests: 0}}]
http: {rate_limits: [{actions: [{device: {header: x-device-id}}]}]}
`, grpclimit.Options{Trusted: []netip.Prefix{netip.MustParsePrefix(trusted)}})
		for _, ctx := range []context.Context{
			incoming(t.Context(), nil, false, "x-device-id", "a"),
			metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-device-id", "a")),
		} {
			if got := pass(ctx, limits); got != codes.OK {
				t.Errorf("the call ended with %v", got)
			}
		}
	}
}

func TestMethodAndPath(t *testing.T) {
	limits := rules(t, new(clock).store(), `
domain: api
descriptors: [{key: method, value: POST, descriptors: [{key: p, value: /test.Echo/Say, rate_limit: {per: 1h, requests: 1}}]}]
http: {rate_limits: [{actions: [{method: {}}, {request_headers: {header_name: ":path", descriptor_key: p}}]}]}
`, grpclimit.Options{})
	ctx := incoming(t.Context(), nil, false)
	if first, second := pass(ctx, limits), pass(ctx, limits); first != codes.OK || second != codes.ResourceExhausted {
		t.Errorf("the calls ended with %v and %v", first, second)
	}
}

// Each rule has its own failure policy; the strictest policy of the rules that apply decides, and a
// rule in shadow mode never denies.
func TestRuleStoreFailure(t *testing.T) {
	for name, test := range map[string]struct {
		rule string
		want codes.Code
	}{
		"allow":  {"rate_limit: {per: 1h, requests: 1}", codes.OK},
		"deny":   {"rate_limit: {per: 1h, requests: 1, on_store_failure: deny}", codes.Unavailable},
		"shadow": {"rate_limit: {per: 1h, requests: 1, on_store_failure: deny}, shadow_mode: true", codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			limits := rules(t, broken{}, `
domain: api
descriptors: [{key: remote_address, `+test.rule+`}]
http: {rate_limits: [{actions: [{remote_address: {}}]}]}
`, grpclimit.Options{})
			if got := pass(incoming(t.Context(), nil, false), limits); got != test.want {
				t.Errorf("the call ended with %v, want %v", got, test.want)
			}
		})
	}
}

// A soft limit marks calls that passed above it; a rule in shadow mode neither appears nor denies.
func TestSoftAndShadow(t *testing.T) {
	cc := serve(t, rules(t, new(clock).store(), `
domain: api
descriptors:
  - {key: remote_address, rate_limit: {per: 1h, requests: 2, soft: 50%, headers: [draft03]}}
  - {key: method, rate_limit: {per: 1h, requests: 0}, shadow_mode: true}
http: {rate_limits: [{actions: [{remote_address: {}}]}, {actions: [{method: {}}]}]}
`, grpclimit.Options{OverHeader: "X-RateLimit-Over", Headers: []rule.Preset{rule.None}}))(alice)
	for i, over := range []int{0, 0, 1} {
		a := call(t.Context(), cc)
		wantCode(t, a.err, codes.OK)
		if got := a.header.Get("x-ratelimit-over"); len(got) != over {
			t.Errorf("call %d: x-ratelimit-over is %v", i, got)
		}
		if got := a.header.Get("x-ratelimit-limit"); len(got) != 1 || got[0] != "2, 2;w=3600" {
			t.Errorf("call %d: x-ratelimit-limit is %v", i, got)
		}
	}
	wantCode(t, call(t.Context(), cc).err, codes.ResourceExhausted)
}

// If the headers were sent already, the call passes without the metadata of its limit.
func TestHeadersGone(t *testing.T) {
	var told error
	limits := grpclimit.Limit(new(clock).store(), limit(t, stint.Spec{Requests: 1, Per: 1e9}), grpclimit.Options{
		OnError: func(_ context.Context, _ string, err error) { told = err },
	})
	if got := pass(incoming(t.Context(), nil, false), limits); got != codes.OK || told == nil {
		t.Errorf("the call ended with %v, OnError was told %v", got, told)
	}
}
