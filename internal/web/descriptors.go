package web

import (
	"net"
	"syscall"
)

// descriptorOf returns the number of a connection's descriptor; -1: it has none. A system of the
// Unix family gives the lowest number that is free, so a number says how many others are in
// use at least.
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
