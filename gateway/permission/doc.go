// Package permission limits how many certificates a Caddy with on-demand TLS obtains: the module
// tls.permission.stint. Without a limit anybody who sends handshakes with invented names makes Caddy
// ask its issuer for certificates until the issuer refuses all.
package permission
