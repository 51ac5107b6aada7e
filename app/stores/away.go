package stores

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
	// LookEvery is the time between two checks of a server on the network.
	LookEvery = time.Second

	// lookTimeout bounds a check, including the first connection.
	lookTimeout = time.Second
)

// server is a store on the network with its guard: the only one, or one of several that share the
// keys.
type server struct {
	name string // for the log, without a password
	network
	guarded  *guard.Store
	denials  *denycache.Store // caches its denials; nil: none
	leases   *lease.Store     // decides busy keys of leased rules from leases
	shares   *quota.Store     // decides local shares of such rules
	eventual *eventual.Store  // decides eventual rules in this process, and reports the use later
	state    serverState

	backends logging.StoreServers // its servers: the primaries of a Cluster, or the server itself

	seen atomic.Bool   // it worked at some time
	lost atomic.Uint64 // how often it had lost counts

	lastLosses struct {
		mu  sync.Mutex // guards all
		all []serverLoss
	}

	unsaved atomic.Pointer[redis.Warning] // why a crash of it loses durable takes; nil: it saves them, or is unknown

	evicted atomic.Uint64 // how many keys memcached evicted

	compared atomic.Bool // the namespace secret was compared with the server's
	warned   atomic.Bool // the log has the error of that comparison
}

// serverState is what the log and /readyz know of a server. Two sources report to it: the check
// every second, and the guard, in which decisions fail.
type serverState struct {
	mu          sync.Mutex           // guards the fields below
	undecodable logging.FaultLimiter // calls of which a state could not be read
	failed      logging.FaultLimiter // calls that failed while others did not
	failing     string               // last error of calls between the last two checks; "" if none failed
}

// serverChanged handles a change of the guard's breaker: rules decide without the server, or use it
// again. It does not log that the server is back: look does, so that a server which comes and goes
// many times a second does not fill the log.
func (st *Stores) serverChanged(s *server, now guard.Status) {
	if now.Away {
		st.serverFails(s, s.backend(now.Server), now.Err)
		return
	}
	s.backends.Answers(s.backend(now.Server))
}

// Look checks all servers for the first time. It stores the namespace secret in none before it
// has compared it with all: a node that must not start changes nothing.
func (st *Stores) Look(ctx context.Context) {
	found := make([]bool, len(st.servers))
	each := func(do func(i int, s *server)) {
		var all sync.WaitGroup
		for i, s := range st.servers {
			all.Go(func() { do(i, s) })
		}
		all.Wait()
	}
	each(func(i int, s *server) { found[i] = st.lookAt(ctx, s) })
	for _, keep := range []bool{false, true} {
		if st.refused.Load() {
			return
		}
		each(func(i int, s *server) {
			if found[i] {
				st.checkSecret(ctx, s, keep)
			}
		})
	}
}

// look checks a server again, and compares the namespace secret if that is due.
func (st *Stores) look(ctx context.Context, s *server) {
	if st.lookAt(ctx, s) {
		st.checkSecret(ctx, s, true)
	}
}

// lookAt checks whether a server answers, on a Cluster each primary, and if there is a doubt
// whether it can decide. It logs that the server is back when the guard uses it too. The first time
// it also checks the server's settings. It reports whether to compare the namespace secret, which
// the server may have lost while it was away.
func (st *Stores) lookAt(ctx context.Context, s *server) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	looked, evicted := s.look(ctx, s.doubtful())
	s.evicted.Add(evicted)
	usable, back, status := st.lookEach(ctx, s, looked)
	if !usable {
		return false
	}
	if !s.seen.Swap(true) || back {
		st.warnOfServer(ctx, s)
	}
	st.lookLosses(ctx, s)
	st.lookCalls(s, status, back)
	return back || !s.compared.Load()
}

// doubtful reports whether a server that answers may still be unable to decide.
func (s *server) doubtful() bool {
	failed := s.guarded.Status().Errors
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return s.backends.Doubtful() || !s.seen.Load() || failed > s.state.failed.Seen
}

// lookCalls logs that some calls fail while the server decides others. It skips errors from before
// the server was back, which are logged already.
func (st *Stores) lookCalls(s *server, status guard.Status, back bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	begins, over := s.state.undecodable.Check(status.Undecodable, status.UndecodableErr)
	st.logFaults(s, begins, over, status.UndecodableErr,
		"the state of a key cannot be read; its rule follows its on_store_failure, other rules are not affected",
		"for a minute all states could be read")
	s.state.failing = ""
	if back {
		s.state.failed.Seen = status.Errors
	}
	if status.Errors > s.state.failed.Seen {
		s.state.failing = status.Failed.Error()
	}
	begins, over = s.state.failed.Check(status.Errors, status.Failed)
	st.logFaults(s, begins, over, status.Failed,
		"the store fails some calls; their rules follow their on_store_failure",
		"the store has failed no call for a minute")
}

// logFaults logs that faults begin, or that they are over.
func (st *Stores) logFaults(s *server, begins, over bool, fault error, beginning, end string) {
	if begins {
		st.log.Error(beginning, "store", s.name, "error", fault, "hint", Hint(fault))
	}
	if over {
		st.log.Info(end, "store", s.name)
	}
}

// warnOfServer logs settings of a server that are dangerous for limits.
func (st *Stores) warnOfServer(ctx context.Context, s *server) {
	warnings, err := s.warnings(ctx)
	if err != nil {
		st.log.Debug("cannot read the settings of the store", "store", s.name, "error", err)
	}
	s.unsaved.Store(nil)
	for _, w := range warnings {
		if w.Unsaved {
			s.unsaved.Store(&w)
			st.warnOfUnsaved(s)
			continue
		}
		st.warnOf(&w)
	}
}

// warnOfUnsaved warns of a server that does not save takes, if some rule is durable.
func (st *Stores) warnOfUnsaved(s *server) {
	if w := s.unsaved.Load(); w != nil && st.hasDurable() {
		st.warnOf(w)
	}
}

func (st *Stores) warnOf(w *redis.Warning) {
	st.log.Warn("the store may forget limits", "error", w.Problem, "hint", w.Hint)
}

// lookLimit is the limit of the peek with which try tests a server.
var lookLimit = stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute})

// problem returns what is wrong with the server; "" if nothing is: it is away, fails some calls, or
// cannot read some states. Only the log has the keys, as anybody may read /readyz.
func (s *server) problem() (text string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if text = cmp.Or(s.backends.Problem(), s.state.failing); text == "" && s.state.undecodable.Lasts() {
		text = "the states of some keys cannot be read; the log says which"
	}
	return text
}

// Problem returns the problems of all servers for /readyz; "" if there are none.
func (st *Stores) Problem() string {
	var all []string
	for _, one := range st.servers {
		problem := one.problem()
		if problem != "" && len(st.servers) > 1 {
			problem = one.name + ": " + problem
		}
		if problem != "" {
			all = append(all, problem)
		}
	}
	if st.durable != nil && st.durable.guarded.Status().Away {
		all = append(all, "durable takes cannot be saved")
	}
	if lost := st.lossText(); lost != "" {
		all = append(all, lost)
	}
	return strings.Join(all, "; ")
}
