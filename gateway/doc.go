// Package gateway builds Stint into Caddy: its directives limit, identify and queue the requests of
// any Caddy site. Command stint-gateway is Caddy with these modules built in; xcaddy builds them into
// a Caddy of your own.
package gateway
