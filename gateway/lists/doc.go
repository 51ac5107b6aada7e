// Package lists lets a Caddy site serve only the clients in a list of networks, or all but those in
// one: the handlers stint_only and stint_deny. The lists are files that are read again when they
// change.
package lists
