// Package web contains the parts of HTTP, TLS and sockets that servers and middleware share:
//
//   - clientip.go finds the address of the client that sent a request, with the help of
//     trusted proxies only.
//   - forwarded_uri.go reads the original request from the headers of a reverse proxy:
//     nginx and HAProxy write X-Original headers, Caddy and Traefik X-Forwarded ones.
//   - query.go reads single parameters of raw URL queries, without a map of all.
//   - headers.go, fields.go, body.go and accept.go write the fields of a response in each
//     preset, and the body of a refusal. They do not depend on a protocol: HTTP middleware,
//     servers and gRPC put the same text into their own messages.
//   - listen.go opens the addresses of a server, HOST:PORT or unix:PATH; gate.go limits how
//     many connections it has, and how many descriptors they use.
//   - certs.go loads the certificate of a server and those of its clients' authorities, and
//     loads them again when their files change.
//   - drain.go stops a net/http server without losing calls, and without waiting for idle
//     clients.
package web
