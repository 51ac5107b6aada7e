package testkit

import (
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// Ports are assigned in blocks from leastPort on. All of them, and the ports ten thousand above,
// are below the range from which the kernel assigns ports.
const leastPort, blocks, blockSize = 12000, 100, 100

// block is the block of ports of this process.
var block struct {
	mu    sync.Mutex // guards the fields below
	next  int        // next port; 0: there is no block yet
	after int        // end of the block
	held  []net.Listener
}

// Port returns a port of the loopback interface that is free for TCP and UDP, and so are the ports
// at the given offsets beside it. No other process can take it: the kernel does not assign it, and
// every test process has its own block, marked by listening on the first port of the block.
func Port(t testing.TB, beside ...int) int {
	t.Helper()
	const attempts = 10 * blockSize
	block.mu.Lock()
	defer block.mu.Unlock()
	for range attempts {
		if block.next == block.after {
			takeBlock(t)
		}
		port := block.next
		block.next++
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

// takeBlock takes a block that no process has, until this process ends. The caller must have the
// lock.
func takeBlock(t testing.TB) {
	t.Helper()
	for _, i := range rand.Perm(blocks) {
		first := leastPort + i*blockSize
		if holder, err := net.Listen("tcp", loopback(first)); err == nil {
			block.held = append(block.held, holder)
			block.next, block.after = first+1, first+blockSize
			return
		}
	}
	t.Fatal("no free ports")
}

// Address returns the loopback address with a [Port].
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

// Heap returns the bytes of live objects on the heap.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // frees objects with finalizers that the first one ran
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
