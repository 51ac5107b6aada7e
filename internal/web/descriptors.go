package web

import (
	"net"
	"syscall"
)

// descriptorOf returns the number of a connection's file descriptor, -1 if it has none. Unix
// systems assign the lowest free number, so at least that many other descriptors are in use.
func descriptorOf(c net.Conn) int {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1
	}
	number := -1
	if err := raw.Control(func(fd uintptr) { number = int(fd) }); err != nil {
		return -1
	}
	return number
}
