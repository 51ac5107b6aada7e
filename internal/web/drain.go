package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Drainer is a net/http server that announces its end to clients. It waits for calls in progress,
// but not for connections without a call. Serve and Drain may each be called once. It is safe for
// concurrent use.
type Drainer struct {
	server  *http.Server
	handler http.Handler
	leaving atomic.Bool
	writers sync.Pool // of *writer

	mu       sync.Mutex        // guards the fields below
	open     map[net.Conn]bool // open connections; true: no byte was received yet
	listener net.Listener      // set by Serve
	ended    bool              // Drain was called
	served   chan struct{}     // closed when Serve accepts no more connections
}

// NewDrainer returns a Drainer of server. It sets ConnState and wraps Handler.
func NewDrainer(server *http.Server) *Drainer {
	s := &Drainer{server: server, handler: server.Handler, open: make(map[net.Conn]bool), served: make(chan struct{})}
	s.writers.New = func() any { return &writer{leaving: &s.leaving} }
	s.server.ConnState = s.track
	s.server.Handler = http.HandlerFunc(s.serve)
	return s
}

// track records open connections, and which of them have not sent anything yet: http.Server would
// wait five seconds for those when it stops.
func (s *Drainer) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open[c] = true
	case http.StateActive, http.StateIdle:
		s.open[c] = false
	case http.StateClosed, http.StateHijacked:
		delete(s.open, c)
	}
}

// serve handles one call.
func (s *Drainer) serve(w http.ResponseWriter, r *http.Request) {
	one := s.writers.Get().(*writer)
	one.ResponseWriter = w
	s.handler.ServeHTTP(one, r)
	one.announce() // if the handler wrote nothing
	one.ResponseWriter, one.begun = nil, false
	s.writers.Put(one)
}

// writer adds "Connection: close" to a response that begins while the server stops. http.Server
// alone does so only after it has closed all idle connections, and so may lose calls that are on
// their way on them.
type writer struct {
	http.ResponseWriter
	leaving *atomic.Bool
	begun   bool
}

// announce adds "Connection: close", unless the header is already written or the server is not
// stopping.
func (w *writer) announce() {
	if !w.begun && w.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	w.begun = true
}

// WriteHeader begins the response.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK { // a lower status is informational; another one follows
		w.announce()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins or continues the response.
func (w *writer) Write(b []byte) (int, error) {
	w.announce()
	return w.ResponseWriter.Write(b)
}

// Flush sends the buffered bytes.
func (w *writer) Flush() {
	w.announce()
	// Writers of net/http can flush, and an error appears again at the next write.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Serve handles the connections of l until Drain, and then returns nil.
func (s *Drainer) Serve(l net.Listener) error {
	defer close(s.served)
	s.mu.Lock()
	s.listener = l
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return l.Close()
	}
	err := s.server.Serve(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Ready sets whether connections stay open after a call. After Ready(false) each response announces
// that its connection ends; idle connections stay open until Drain.
func (s *Drainer) Ready(yes bool) { s.leaving.Store(!yes) }

// Drain closes the listener and waits for calls in progress until ctx is done; then it closes their
// connections and returns true. Idle connections stay open for linger, so that the response to
// their next call can announce the end. Connections that have sent nothing are closed at most
// silent after that.
func (s *Drainer) Drain(ctx context.Context, linger, silent time.Duration) (cut bool) {
	s.refuse(ctx) // first, because clients that see the announcement connect again at once
	s.Ready(false)
	s.await(ctx, linger)
	timer := time.AfterFunc(silent, s.closeFresh)
	defer timer.Stop()
	// The listener is already closed, and Shutdown may notice that before Serve has removed it.
	if err := s.server.Shutdown(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		// Its error is that of Shutdown.
		_ = s.server.Close()
		return true
	}
	return false
}

// acceptTime is how long a closed listener may take to end its Accept.
const acceptTime = time.Second

// refuse closes the listener, and waits until the last connection that it accepted is known: the
// process must not end before it is answered.
func (s *Drainer) refuse(ctx context.Context) {
	s.mu.Lock()
	s.ended = true
	l := s.listener
	s.mu.Unlock()
	if l == nil {
		return
	}
	// Shutdown closes the listener too, and nobody could handle the error.
	_ = l.Close()
	select {
	case <-s.served:
	case <-ctx.Done():
	case <-time.After(acceptTime):
	}
}

// pollInterval is the time between two checks for open connections.
const pollInterval = 5 * time.Millisecond

// await waits until no connection is open, until most has passed, or until ctx is done.
func (s *Drainer) await(ctx context.Context, most time.Duration) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.After(most); s.connections() > 0; {
		select {
		case <-tick.C:
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// connections returns the number of open connections.
func (s *Drainer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Drainer) closeFresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, fresh := range s.open {
		if fresh {
			c.Close()
		}
	}
}
