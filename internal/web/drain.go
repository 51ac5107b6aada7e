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

// Drainer is a server of net/http whose end is announced, and waits for the calls in
// flight, but not for connections that have sent nothing. Its life is Serve and Drain, each
// once; it is safe for concurrent use.
type Drainer struct {
	server  *http.Server
	handler http.Handler
	leaving atomic.Bool
	writers sync.Pool // of *writer

	mu       sync.Mutex        // guards what follows
	open     map[net.Conn]bool // true: it has sent nothing so far
	listener net.Listener      // once somebody serves
	ended    bool              // Drain was called
}

// NewDrainer returns a server that ends as this package says; it takes over ConnState and wraps
// Handler.
func NewDrainer(server *http.Server) *Drainer {
	s := &Drainer{server: server, handler: server.Handler, open: make(map[net.Conn]bool)}
	s.writers.New = func() any { return &writer{leaving: &s.leaving} }
	s.server.ConnState = s.track
	s.server.Handler = http.HandlerFunc(s.serve)
	return s
}

// track keeps the open connections, and which of them have sent nothing: http.Server
// would wait five seconds for those when it stops.
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

// serve answers one call.
func (s *Drainer) serve(w http.ResponseWriter, r *http.Request) {
	one := s.writers.Get().(*writer)
	one.ResponseWriter = w
	s.handler.ServeHTTP(one, r)
	one.announce() // where nothing was written
	one.ResponseWriter, one.begun = nil, false
	s.writers.Put(one)
}

// writer adds "Connection: close" to an answer that is begun while the server is leaving,
// which http.Server by itself does only once it has closed all idle connections, and so may
// lose the calls that are on their way on them.
type writer struct {
	http.ResponseWriter
	leaving *atomic.Bool
	begun   bool
}

// announce tells the client, where it is not too late, not to use the connection again.
func (w *writer) announce() {
	if !w.begun && w.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	w.begun = true
}

// WriteHeader begins the answer.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK { // below: others follow
		w.announce()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, or goes on with it.
func (w *writer) Write(b []byte) (int, error) {
	w.announce()
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written so far.
func (w *writer) Flush() {
	w.announce()
	// A writer of net/http can flush, and its errors show at the next write.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Serve answers what l accepts until Drain, and then returns nil.
func (s *Drainer) Serve(l net.Listener) error {
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

// Ready says whether connections are kept for another call. From false on each answer says
// that its connection ends; connections without a call stay open until Drain.
func (s *Drainer) Ready(yes bool) { s.leaving.Store(!yes) }

// Drain accepts no more connections and waits for the calls in flight until ctx is done;
// then it cuts them and says so. Connections without a call stay open for linger, so that
// their clients are told in the answer to their next call. Those that have sent nothing are
// closed at silent after that.
func (s *Drainer) Drain(ctx context.Context, linger, silent time.Duration) (cut bool) {
	s.refuse() // first: who is told to leave comes again at once
	s.Ready(false)
	s.await(ctx, linger)
	timer := time.AfterFunc(silent, s.closeFresh)
	defer timer.Stop()
	// The listener is closed already, which Shutdown may find before Serve has told it.
	if err := s.server.Shutdown(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		// It reports what Shutdown has reported.
		_ = s.server.Close()
		return true
	}
	return false
}

// refuse accepts no more connections.
func (s *Drainer) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.listener != nil {
		// Shutdown closes the listener too, and what there is to say to nobody.
		_ = s.listener.Close()
	}
}

// look is the time between two looks at the open connections.
const look = 5 * time.Millisecond

// await waits until no connection is open, for at most so long, or until ctx is done.
func (s *Drainer) await(ctx context.Context, most time.Duration) {
	tick := time.NewTicker(look)
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

// connections returns how many are open.
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
