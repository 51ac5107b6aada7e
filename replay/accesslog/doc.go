// Package accesslog parses the access logs of web servers.
//
// It supports the common and combined format of Apache and nginx, optionally with the virtual host
// as the first field, Envoy's default format and Istio's, HAProxy's HTTP log, the log of AWS's
// Application Load Balancer, and JSON objects with the usual field names of nginx, Caddy, Traefik,
// the Elastic Common Schema and Cloudflare. Each line is parsed by itself, so a log may mix
// formats.
//
// A line is parsed if its address, time, method and path can be read; the rest may be damaged.
// Parsing lines of the usual formats does not allocate and reaches a few million lines per second.
package accesslog
