package web

import (
	"net"
	"syscall"
)

// HungUp reports whether the other side of a connection closed it, even if data that nobody read yet
// came before. It reads nothing. Where the system cannot say, HungUp is false.
func HungUp(c net.Conn) (closed bool) {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn }) // as tls.Conn has
		if !ok {
			break
		}
		c = inner.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true // it is closed on this side
	}
	if err := raw.Control(func(fd uintptr) { closed = hungUp(fd) }); err != nil {
		return true
	}
	return closed
}
