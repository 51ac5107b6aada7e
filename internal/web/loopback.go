package web

import "net/netip"

// Loopback says whether a host, by its name or address, can be reached from this machine only.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
