package resp

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"stint/internal/logging"
	"stint/limiter"
	"stint/rule"
	"stint/server/access"
)

// Options are the optional parts of a Server.
type Options struct {
	// Token is the token with which clients ask for decisions, by AUTH. Empty: they need none.
	Token string

	// Lists return callers with a role, who may send their own token with AUTH. Empty: everybody who
	// may ask for decisions may do everything.
	Lists []func() *access.List

	// OnReset is called before STINT.RESET resets a limit for a key. If it returns an error, nothing is
	// reset. Nil: not called.
	OnReset func(reset Reset) error

	// Together means that the store decides calls together which are made at the same time, as one on
	// the network does. The commands of a pipeline are then decided so.
	Together bool

	// Version is the version of Stint, for INFO.
	Version string

	// Log gets mistakes of clients. Nil: they are not logged.
	Log *slog.Logger

	partTimeout time.Duration // for tests; 0: the constant
}

// Reset is a limit that is about to be reset for a key.
type Reset struct {
	Context context.Context //nolint:containedctx // it is passed on, not kept
	Caller  access.Caller
	Peer    netip.Addr
	Rule    string
	Key     []rule.Entry
	Before  State
}

// State is the state of a limit for a key, in JSON as in the answer of /v1/inspect.
type State struct {
	Limit     *int64 `json:"limit"` // nil: unlimited
	Used      *int64 `json:"used"`
	Remaining *int64 `json:"remaining"`
}

// Server answers Redis clients. Serve and Drain may each be called once. It is safe for concurrent use.
type Server struct {
	limiter *limiter.Limiter
	options Options
	misuse  *logging.MisuseLog
	numbers numbers
	batches bool      // commands of a pipeline are decided in batches
	spare   sync.Pool // of *batch, empty
	room    room
	ids     atomic.Int64 // of connections
	ctx     context.Context
	cancel  context.CancelFunc
	leaving atomic.Pointer[leaving] // nil: it does not stop

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	conns    map[*conn]bool
	group    sync.WaitGroup // of connections
}

// leaving says how connections end while the server stops.
type leaving struct {
	silent time.Duration // close a connection that sends nothing for this long
	until  time.Time     // and every one after its next answer from then on
}

// New returns a server that asks l.
func New(l *limiter.Limiter, options Options) *Server {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		limiter: l, options: options, conns: make(map[*conn]bool),
		misuse: &logging.MisuseLog{Log: options.Log, Event: "wrong call of a Redis client"},
	}
	if s.options.partTimeout == 0 {
		s.options.partTimeout = partTimeout
	}
	s.numbers.init()
	s.batches = !options.Together && l.Batches()
	s.spare.New = func() any { return new(batch) }
	s.room.left.Store(maxLarge)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections until Drain, and then returns nil. After an error it cannot continue.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	stopped := s.leaving.Load() != nil
	s.listener = l
	s.mu.Unlock()
	if stopped {
		return l.Close()
	}
	for {
		c, err := l.Accept()
		if err != nil {
			if s.leaving.Load() != nil && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		s.start(c)
	}
}

// start serves a connection, unless the server stops.
func (s *Server) start(c net.Conn) {
	one := newConn(s, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() != nil {
		c.Close()
		return
	}
	s.conns[one] = true
	s.group.Go(func() {
		one.serve()
		s.mu.Lock()
		delete(s.conns, one)
		s.mu.Unlock()
	})
}

// Ready does nothing: the protocol cannot tell clients whether to send calls.
func (*Server) Ready(bool) {}

// Drain accepts nothing more. It closes connections that send nothing for silent, and after linger
// every one that waits for no answer. When ctx is done it cuts the rest and returns true.
func (s *Server) Drain(ctx context.Context, linger, silent time.Duration) (cut bool) {
	s.mu.Lock()
	l := &leaving{silent, time.Now().Add(linger)}
	s.leaving.Store(l)
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.conns {
		c.hurry(l)
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.group.Wait(); close(ended) }()
	select {
	case <-ended:
		s.cancel()
		return false
	case <-ctx.Done():
	}
	s.cancel()
	s.mu.Lock()
	cut = len(s.conns) > 0
	for c := range s.conns {
		c.net.Close()
	}
	s.mu.Unlock()
	<-ended
	return cut
}

// open reports whether clients may ask for decisions without AUTH.
func (s *Server) open() bool { return s.options.Token == "" }

// place is the list in which a caller was found.
type place struct {
	in   func() *access.List // nil: in none
	then *access.List
}

// changed reports whether the list is another one now.
func (p place) changed() bool { return p.in() != p.then }

// caller returns who has a token, and in which list. Whoever has the token of the traffic is in none,
// and has no role.
func (s *Server) caller(token string) (who access.Caller, list place, ok bool) {
	for _, in := range s.options.Lists {
		list = place{in, in()}
		if who, ok = list.then.Token(token); ok {
			return who, list, true
		}
	}
	t := s.options.Token
	return access.Caller{}, place{}, t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(token)) == 1
}
