package web

import "net/netip"

// Loopback reports whether a host, a name or an address, can be reached from this machine only.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
