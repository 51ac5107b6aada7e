package app

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/chain/guard"
	"stint/fleet/eventual"
	"stint/fleet/lease"
	"stint/fleet/quota"
	"stint/internal/logging"
	"stint/store/redis"
)

const (
	// lookEvery is how often a server on the network is asked whether it is there.
	lookEvery = time.Second

	// lookTimeout is how long it may take to answer that, its first connection included.
	lookTimeout = time.Second
)

// server is a store on the network behind its guard: the only one, or one of several that
// keys are placed on.
type server struct {
	name    string // for people
	shared  *redis.Store
	guarded *guard.Store
	recall  *denycache.Store // remembers what that refuses; nil: nothing does
	leases  *lease.Store     // decides busy keys of leased rules from what that lends
	shares  *quota.Store     // decides what this process has for itself of such rules
	own     *eventual.Store  // decides by itself, and tells that afterwards
	state   serverState

	backends logging.StoreServers // its Redis servers: the primaries of a Cluster, or itself

	seen atomic.Bool   // it could be used at some time
	lost atomic.Uint64 // times that it had forgotten counts

	compared atomic.Bool // the namespace secret with that of the server
	warned   atomic.Bool // that it cannot be
}

// serverState is whether a server can be used. Two find out: who looks at it now and
// then, and the guard around it, in which decisions fail.
type serverState struct {
	mu          sync.Mutex           // guards what follows
	undecodable logging.FaultLimiter // of calls of which a state could not be read
	failed      logging.FaultLimiter // of calls that failed while others did not
	failing     string               // why some did between the last two looks; "" if none did
}

// serverChanged notes that a server does not answer any more, so that rules decide
// without it, or that it does. To log that it is back is left to look, so that one which
// comes and goes many times a second fills no log.
func (a *App) serverChanged(s *server, now guard.Status) {
	if now.Away {
		a.serverFails(s, s.backend(now.Server), now.Err)
		return
	}
	s.backends.Answers(s.backend(now.Server))
}

// lookAll looks at all servers for the first time. The namespace secret is left in none
// before it was compared with that of all: a node that must not start leaves nothing.
func (a *App) lookAll(ctx context.Context) {
	found := make([]bool, len(a.stores.servers))
	each := func(do func(i int, s *server)) {
		var all sync.WaitGroup
		for i, s := range a.stores.servers {
			all.Go(func() { do(i, s) })
		}
		all.Wait()
	}
	each(func(i int, s *server) { found[i] = a.lookAt(ctx, s) })
	for _, keep := range []bool{false, true} {
		if len(a.failed) > 0 {
			return
		}
		each(func(i int, s *server) {
			if found[i] {
				a.checkSecret(ctx, s, keep)
			}
		})
	}
}

// look looks at a server again, and compares the namespace secret where that is due.
func (a *App) look(ctx context.Context, s *server) {
	if a.lookAt(ctx, s) {
		a.checkSecret(ctx, s, true)
	}
}

// lookAt asks a server, of a Cluster each primary, whether it is there, and where there is a reason
// to doubt it, whether it can decide. That it can be used again is noted when the guard says so
// too. The first time its settings are looked at. It returns whether the server is to be asked
// for the namespace secret, which it may have forgotten while it was away.
func (a *App) lookAt(ctx context.Context, s *server) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	usable, back, status := a.lookEach(ctx, s, s.shared.Look(ctx, s.doubtful()))
	if !usable {
		return false
	}
	if !s.seen.Swap(true) || back {
		a.warnOfServer(ctx, s)
	}
	a.lookCalls(s, status, back)
	return back || !s.compared.Load()
}

// doubtful says whether a server that is there may still be unable to decide.
func (s *server) doubtful() bool {
	failed := s.guarded.Status().Errors
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return s.backends.Doubtful() || !s.seen.Load() || failed > s.state.failed.Seen
}

// lookCalls logs that some calls fail, of a server that decides others. What failed before it
// was back has been told.
func (a *App) lookCalls(s *server, status guard.Status, back bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	tell, over := s.state.undecodable.Look(status.Undecodable, status.UndecodableErr)
	a.tell(s, tell, over, status.UndecodableErr,
		"the state of a key cannot be read; its rule is answered by its on_store_failure, all others are not concerned",
		"no state was met for a minute that cannot be read")
	s.state.failing = ""
	if back {
		s.state.failed.Seen = status.Errors
	}
	if status.Errors > s.state.failed.Seen {
		s.state.failing = status.Failed.Error()
	}
	tell, over = s.state.failed.Look(status.Errors, status.Failed)
	a.tell(s, tell, over, status.Failed,
		"the store fails some calls; their rules are answered by their on_store_failure",
		"the store has failed no call for a minute")
}

// tell logs that faults begin, or that they are over.
func (a *App) tell(s *server, begins, over bool, fault error, beginning, end string) {
	if begins {
		a.log.Error(beginning, "store", s.name, "error", fault, "hint", redisHint(fault))
	}
	if over {
		a.log.Info(end, "store", s.name)
	}
}

// warnOfServer logs what is odd about a server.
func (a *App) warnOfServer(ctx context.Context, s *server) {
	warnings, err := s.shared.Warnings(ctx)
	if err != nil {
		a.log.Debug("cannot read the settings of the store", "store", s.name, "error", err)
	}
	for _, w := range warnings {
		a.log.Warn("the store may forget limits", "error", w.Problem, "hint", w.Hint)
	}
}

// looked is the limit of a peek that nobody is charged for.
var looked = stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute})

// problem is what is wrong with the server; "" for nothing. It may be away for that, or fail
// some calls, or not read some states: whose, only the log says, as anybody may ask.
func (s *server) problem() (text string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if text = cmp.Or(s.backends.Problem(), s.state.failing); text == "" && s.state.undecodable.Lasts() {
		text = "the states of some keys cannot be read; the log says which"
	}
	return text
}

// problem is what /readyz says is wrong with the store.
func (s *stores) problem() string {
	var all []string
	for _, one := range s.servers {
		problem := one.problem()
		if problem != "" && len(s.servers) > 1 {
			problem = one.name + ": " + problem
		}
		if problem != "" {
			all = append(all, problem)
		}
	}
	return strings.Join(all, "; ")
}
