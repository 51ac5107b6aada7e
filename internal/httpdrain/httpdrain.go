// Package httpdrain ends a server of net/http without losing calls, and without waiting
// for clients that say nothing.
package httpdrain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a server of net/http whose end waits for the calls in flight, and not for
// connections that have sent nothing. Its life is Serve and Drain, each once; it is safe
// for concurrent use.
type Server struct {
	server *http.Server

	mu    sync.Mutex
	fresh map[net.Conn]struct{} // connections that have sent nothing so far
}

// New returns a server that ends as this package says; it takes over ConnState.
func New(server *http.Server) *Server {
	s := &Server{server: server, fresh: make(map[net.Conn]struct{})}
	s.server.ConnState = s.track
	return s
}

// track keeps the connections that have sent nothing: http.Server would wait five
// seconds for them when it stops.
func (s *Server) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew {
		s.fresh[c] = struct{}{}
	} else {
		delete(s.fresh, c)
	}
}

// Serve answers what l accepts until Drain, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Ready says whether connections are kept for another call.
func (s *Server) Ready(yes bool) { s.server.SetKeepAlivesEnabled(yes) }

// Drain accepts nothing more and waits for the calls in flight until ctx is done; then it
// cuts them and says so. Connections that have sent nothing are closed at silent.
func (s *Server) Drain(ctx context.Context, silent time.Time) (cut bool) {
	timer := time.AfterFunc(time.Until(silent), s.closeFresh)
	defer timer.Stop()
	if err := s.server.Shutdown(ctx); err != nil {
		// It reports what Shutdown has reported.
		_ = s.server.Close()
		return true
	}
	return false
}

func (s *Server) closeFresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.fresh {
		c.Close()
	}
}
