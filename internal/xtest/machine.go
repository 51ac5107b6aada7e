package xtest

import (
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
)

const leastPort, ports = 20000, 10000

// Ports are tried one after the other, from anywhere on, so that processes do not try
// the same ones in step.
var (
	firstPort = rand.Uint32N(ports)
	nextPort  atomic.Uint32
)

// Port returns a port of the loopback interface that is free for TCP and UDP, as are those
// so far beside it. It is below the ports that the kernel gives to whoever asks for any, so
// that nobody has it by the time it is used; and no two calls of one process return the same
// before all were returned.
func Port(t testing.TB, beside ...int) int {
	t.Helper()
	const attempts = 100
	for range attempts {
		port := leastPort + int((firstPort+nextPort.Add(1))%ports)
		free := isFree(port)
		for _, by := range beside {
			free = free && isFree(port+by)
		}
		if free {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Address returns the address of a [Port].
func Address(t testing.TB) string {
	t.Helper()
	return loopback(Port(t))
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func isFree(port int) bool {
	stream, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return false
	}
	_ = packets.Close() // nothing was sent
	return true
}

// Heap returns the bytes of the heap that are in use.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
