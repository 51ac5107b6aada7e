package web

import (
	"net"
	"net/netip"
	"strings"
)

// Loopback reports whether a host, a name or an address, can be reached from this machine only.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// HostName returns the name in a Host header without port, brackets and trailing dot, in lower
// case.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
