package lists

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"stint/gateway/service"
	"stint/internal/text"
	"stint/rule"
	rulelist "stint/rule/list"
)

// list is the list of networks in one file. It is safe for concurrent use, except for load and
// reload.
type list struct {
	path string
	full bool // an empty list is a fault

	current atomic.Pointer[contents]
	stale   atomic.Bool // the last change was refused
	refused [sha256.Size]byte
}

// contents are the networks of a file after a successful load. They are immutable.
type contents struct {
	networks *rule.Listed
	sum      [sha256.Size]byte // of the file
	bytes    int               // memory
	since    time.Time         // time of the load
}

// holds reports whether an address is in the list.
func (l *list) holds(addr netip.Addr) bool { return l.current.Load().networks.Networks.Holds(addr) }

// load reads the file and reports whether the list has changed. On an error the previous list stays.
func (l *list) load() (changed bool, err error) {
	data, err := os.ReadFile(l.path)
	if err != nil {
		return false, &fault{l.path, 0, "cannot read it: " + text.Cause(err), "name a file with one network or address a line, which this process may read"}
	}
	before, sum := l.current.Load(), sha256.Sum256(data)
	if before != nil && before.sum == sum {
		return false, l.check(before.networks)
	}
	networks, err := rulelist.ParseNetworks(l.path, data)
	if err != nil {
		return false, faultOf(err)
	}
	if err := l.check(networks); err != nil {
		return false, err
	}
	l.current.Store(&contents{networks, sum, sizeOf(networks.Set), time.Now()})
	return true, nil
}

// check returns an error if the list must not be empty but is.
func (l *list) check(networks *rule.Listed) error {
	if l.full && networks.Set.Len() == 0 {
		return &fault{l.path, 0, "no network in it, so stint_only would refuse every client", "add a network, or remove stint_only from the site"}
	}
	return nil
}

// reload loads the list again and logs what changed. It logs the same fault once.
func (l *list) reload(log *slog.Logger) {
	changed, err := l.load()
	now := l.current.Load()
	if err == nil {
		l.stale.Store(false)
		l.refused = [sha256.Size]byte{}
		if changed {
			log.Info("address list reloaded", "file", l.path, "networks", now.networks.Set.Len(), "bytes", now.bytes)
		}
		return
	}
	l.stale.Store(true)
	if sum := sha256.Sum256([]byte(err.Error())); sum != l.refused {
		l.refused = sum
		log.Error(fmt.Sprintf("address list not reloaded: keeping the %d networks of %s", now.networks.Set.Len(), now.since.Format(time.TimeOnly)), "error", err)
	}
}

// fault is a fault of a file, in one line.
type fault struct {
	file          string
	line          int // 0 for none
	problem, hint string
}

// Error returns the place, the fault and the hint.
func (f *fault) Error() string {
	return rule.Place(f.file, f.line) + ": " + f.problem + "; hint: " + f.hint
}

// faultOf returns the first fault of a file, and how many more there are.
func faultOf(err error) error {
	all, ok := errors.AsType[*rule.Errors](err)
	if !ok {
		return err
	}
	first := all.List[0]
	f := &fault{first.File, first.Line, first.Problem, first.Hint}
	if more := len(all.List) - 1; more > 0 {
		f.problem += fmt.Sprintf(" (and %d more faults)", more)
	}
	return f
}

// explain returns the error of a configuration with a list that cannot be read. place is that of the
// directive.
func explain(place string, err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return service.Fault(place, rule.Place(f.file, f.line)+": "+f.problem, f.hint)
	}
	return err
}
