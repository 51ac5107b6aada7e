package transport

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// streams counts the open streams of each connection, of health watches and reflection. A
// client needs one or two; each costs a goroutine for as long as the client likes.
type streams struct {
	mu   sync.Mutex
	open map[net.Addr]int // by the address that grpc-go keeps of a connection, a pointer
}

// begin counts a stream of the connection of ctx. The error is a status: it has too many.
func (s *streams) begin(ctx context.Context) (end func(), err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.Addr] >= maxOpen {
		return nil, status.Error(codes.ResourceExhausted,
			fmt.Sprintf("more than %d open streams of health and reflection on one connection; end some", maxOpen))
	}
	if s.open == nil {
		s.open = make(map[net.Addr]int)
	}
	s.open[p.Addr]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[p.Addr]--; s.open[p.Addr] == 0 {
			delete(s.open, p.Addr)
		}
	}, nil
}
