package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"stint/server/httpapi"
)

// httpServer answers a listener by a handler of net/http.
type httpServer struct {
	server *http.Server

	mu    sync.Mutex
	fresh map[net.Conn]struct{} // connections that have sent nothing so far
}

// newHTTPServer returns a server with bounds on what a client may hold on to.
func newHTTPServer(handler http.Handler, limits httpapi.Limits, log *slog.Logger) *httpServer {
	s := &httpServer{server: httpapi.NewServer(handler, limits), fresh: make(map[net.Conn]struct{})}
	s.server.ConnState = s.track
	s.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return s
}

// track keeps the connections that have sent nothing: http.Server would wait five
// seconds for them when it stops.
func (s *httpServer) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew {
		s.fresh[c] = struct{}{}
	} else {
		delete(s.fresh, c)
	}
}

// Serve is part of answerer.
func (s *httpServer) Serve(l net.Listener) error {
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Ready is part of answerer: connections are kept for another call only while it is.
func (s *httpServer) Ready(yes bool) { s.server.SetKeepAlivesEnabled(yes) }

// Drain is part of answerer.
func (s *httpServer) Drain(ctx context.Context, silent time.Time) (cut bool) {
	timer := time.AfterFunc(time.Until(silent), s.closeFresh)
	defer timer.Stop()
	if err := s.server.Shutdown(ctx); err != nil {
		// It reports what Shutdown has reported.
		_ = s.server.Close()
		return true
	}
	return false
}

func (s *httpServer) closeFresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.fresh {
		c.Close()
	}
}
