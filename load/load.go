// Package load keeps gauges that say how busy something is, for limits that give more
// while there is room (`elastic: {from: load}` in a rule file).
//
//	var gauges load.Gauges
//	gauges.Func("db", func() (float64, bool) { return pool.Busy(), true })
//	l := limiter.New(store, table, limiter.Options{Load: gauges.Load})
//
// A load is a number from 0, idle, to 1, all that there is; it may go above where more
// is asked for than there is. What nobody has said lately is not fresh, and a limit then
// gives nothing extra.
package load

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Process is the name of the gauge that is always there: the processor time that this
// process used over about the last second, as part of what it may use (GOMAXPROCS). It
// is measured when it is asked for, at most once a second, and fresh only while it is
// asked for at least every five; the first answer after a pause is not. Where the system
// does not tell it is never fresh.
const Process = "process"

const (
	// MaxLoad is the largest load that is taken: a larger one is surely meant as a
	// percentage.
	MaxLoad = 10

	// MaxTTL is the longest that a load may count as fresh.
	MaxTTL = 10 * time.Minute

	// MinTTL is the shortest: less is over before anybody can ask.
	MinTTL = 10 * time.Millisecond

	// MaxName is the longest name of a gauge in bytes.
	MaxName = 256
)

// Error says what is wrong with a gauge.
type Error struct {
	Field   string // "name", "load" or "ttl"
	Problem string // what is wrong
	Hint    string // what to do
}

// Error returns the field and the problem. The hint stands apart.
func (e *Error) Error() string { return e.Field + ": " + e.Problem }

// Gauges are loads by name. The zero value is ready to use, and knows [Process]. It is
// safe for concurrent use; to ask it takes no lock that anybody holds for long.
type Gauges struct {
	process process

	mu    sync.RWMutex
	funcs map[string]func() (float64, bool)
	set   map[string]reading
}

// reading is what somebody said.
type reading struct {
	load  float64
	until time.Time
}

// Set says what a gauge shows from now on, for as long as ttl. The error is an [*Error]
// and changes nothing: for a load below 0, above MaxLoad or no number, a ttl outside
// MinTTL to MaxTTL, an impossible name, and a gauge that measures itself.
func (g *Gauges) Set(name string, load float64, ttl time.Duration) error {
	switch {
	case math.IsNaN(load) || load < 0:
		return &Error{"load", fmt.Sprintf("%v is no load", load), "give a number from 0, idle, to 1, all that there is"}
	case load > MaxLoad:
		return &Error{"load", fmt.Sprintf("%v is above %d", load, MaxLoad), "1 is all that there is: write 0.2 for 20 %"}
	case ttl < MinTTL || ttl > MaxTTL:
		return &Error{"ttl", fmt.Sprintf("%v is outside %v to %v", ttl, MinTTL, MaxTTL), "say how long the load counts: two or three times as long as until it is said again"}
	case name == "" || len(name) > MaxName:
		return &Error{"name", fmt.Sprintf("a name of %d bytes", len(name)), fmt.Sprintf("give one of 1 to %d", MaxName)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == Process || g.funcs[name] != nil {
		return &Error{"name", fmt.Sprintf("the gauge %q measures itself", name), "leave it alone, or use another name"}
	}
	if g.set == nil {
		g.set = make(map[string]reading)
	}
	g.set[strings.Clone(name)] = reading{load, time.Now().Add(ttl)}
	return nil
}

// Func makes a gauge ask f, which returns the load and whether it is fresh. It is called
// on the path of requests, so it must be quick, and safe for concurrent use; what it
// returns that Set would refuse is not fresh. It stands in place of what was set, or of
// the built-in gauge; nil takes it away again.
func (g *Gauges) Func(name string, f func() (load float64, fresh bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f == nil {
		delete(g.funcs, name)
		return
	}
	if g.funcs == nil {
		g.funcs = make(map[string]func() (float64, bool))
	}
	g.funcs[name] = f
	delete(g.set, name)
}

// Load returns what a gauge shows and whether that is fresh; 0 and false where it is not.
func (g *Gauges) Load(name string) (load float64, fresh bool) {
	g.mu.RLock()
	f, said := g.funcs[name], g.set[name]
	g.mu.RUnlock()
	switch {
	case f != nil:
		load, fresh = f()
		fresh = fresh && load >= 0 && load <= MaxLoad
	case name == Process:
		load, fresh = g.process.load(time.Now())
	case !said.until.IsZero():
		load, fresh = said.load, time.Now().Before(said.until)
	}
	if !fresh {
		return 0, false
	}
	return load, true
}

// Names returns the gauges that were ever set or measure themselves, sorted.
func (g *Gauges) Names() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	names := []string{Process}
	for name := range g.funcs {
		names = append(names, name)
	}
	for name := range g.set {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
