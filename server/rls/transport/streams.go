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

// streams counts the open health-watch and reflection streams of each connection. A client needs
// one or two; each occupies a goroutine until the client closes it.
type streams struct {
	mu   sync.Mutex
	open map[net.Addr]int // by the net.Addr that grpc-go keeps for a connection, a pointer
}

// begin counts a stream of the connection of ctx. It returns a status error if there are too many.
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
