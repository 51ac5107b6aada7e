// Package proof has the tests that show what passes the gateway untouched, with real processes on
// loopback: clients of all three versions of HTTP, gRPC, websockets, event streams, uploads and
// downloads, slow and broken clients and upstreams, hostile requests, and a browser.
//
// Most tests run twice: through the gateway with its directives, and through bare Caddy, which is the
// same binary with the same Caddyfile less our directives. The answers must be the same.
//
// With -proof.long the streams last a minute and the upload has 2 GiB. With -proof.cpu=200000
// TestCPU prints the CPU time of a request beside bare Caddy and nginx.
package proof
