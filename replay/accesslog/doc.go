// Package accesslog reads the lines that web servers write about each request.
//
// It knows the common and combined format of Apache and nginx, also with the virtual
// host in front, Envoy's default format and Istio's, HAProxy's HTTP log, that of AWS's
// Application Load Balancer, and JSON objects with the usual field names of nginx,
// Caddy, Traefik, the Elastic Common Schema and Cloudflare. Each line is read by
// itself, so a log may mix them.
//
// A line is parsed when address, time, method and path can be read, whatever
// follows. Lines of the usual form cost no memory, at a few million a second.
package accesslog
