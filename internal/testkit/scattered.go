package testkit

import (
	"encoding/binary"
	"net/netip"
)

// ScatteredAddress returns address number i of millions that lie far apart: IPv4, and IPv6 for odd numbers. No
// two are the same, and none belongs to this machine.
func ScatteredAddress(i int) netip.Addr {
	scattered := uint64(i) * 0x9E3779B97F4A7C15
	if i%2 == 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(scattered>>32)&0x1fffffff|0x40000000)
		return netip.AddrFrom4(a)
	}
	a := [16]byte{0x20, 0x01}
	binary.BigEndian.PutUint64(a[2:], scattered)
	return netip.AddrFrom16(a)
}
