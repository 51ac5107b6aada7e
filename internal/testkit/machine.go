package testkit

import (
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// Ports from leastPort on, in blocks. They, and those ten thousand above, lie below the ports
// that the kernel gives to whoever asks for any.
const leastPort, blocks, blockSize = 12000, 100, 100

// block is the ports of which this process gives out the next.
var block struct {
	mu    sync.Mutex // guards what follows
	next  int        // 0: there is none yet
	after int        // the first that is not of it
	held  []net.Listener
}

// Port returns a port of the loopback interface that is free for TCP and UDP, as are those
// so far beside it. Nobody has it by the time it is used, or used again: the kernel gives it to
// nobody, and other processes have other blocks, as each listens on the first port of its own.
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

// takeBlock takes a block that no process has, with the lock held, until this one ends.
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
