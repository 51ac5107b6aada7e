// Package web has what servers and middleware need of HTTP, TLS and sockets:
//
//   - clientip.go finds the address of the client that sent a request, believing nobody but
//     trusted proxies.
//   - forwarded_uri.go reads the request that a reverse proxy asks about from its headers:
//     nginx and HAProxy write X-Original headers, Caddy and Traefik X-Forwarded ones.
//   - query.go reads single parameters of raw URL queries, without a map of all.
//   - headers.go, fields.go, body.go and accept.go render what a client is told about its
//     limits: the fields of an answer in each preset, and the body of a refusal. They know no
//     protocol: HTTP middleware, servers and gRPC put the same text into their own messages.
//   - listen.go opens the addresses of a server, HOST:PORT or unix:PATH; gate.go bounds how
//     many connections it has, and how many descriptors they use.
//   - certs.go keeps the certificate of a server, and those that may sign its clients', and
//     reads them again when their files change.
//   - drain.go ends a server of net/http without losing calls, and without waiting for clients
//     that send nothing.
package web
