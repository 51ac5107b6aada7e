// Package load keeps gauges of the load of systems, for limits that allow more while the load is
// low (`elastic: {from: load}` in a rule file).
//
//	var gauges load.Gauges
//	gauges.Func("db", func() (float64, bool) { return pool.Busy(), true })
//	l := limiter.New(store, table, limiter.Options{Load: gauges.Load})
//
// A load is a number from 0 (idle) to 1 (full capacity); it is above 1 if demand exceeds capacity.
// A load that was not set recently is not fresh; limits then allow nothing extra. [API] serves gauges
// to other programs.
package load

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Process is the name of the built-in gauge: the CPU time that this process used over about the
// last second, divided by the CPU time that it may use (GOMAXPROCS). Load measures it when called,
// at most once a second. It is fresh only while Load is called at least every five seconds; the
// first value after a longer pause is not. On systems that do not report CPU time it is never
// fresh.
const Process = "process"

const (
	// MaxLoad is the largest valid load; a larger one is probably a percentage.
	MaxLoad = 10

	// MaxTTL is the longest time for which a load can be fresh.
	MaxTTL = 10 * time.Minute

	// MinTTL is the shortest such time; less would end before a limit could use it.
	MinTTL = 10 * time.Millisecond

	// MaxName is the maximum length of a gauge's name in bytes.
	MaxName = 256
)

// Error is an invalid argument of Gauges.Set.
type Error struct {
	Field   string // "name", "load" or "ttl"
	Problem string // why it is invalid
	Hint    string // how to correct it
}

// Error returns the field and the problem, without the hint.
func (e *Error) Error() string { return e.Field + ": " + e.Problem }

// Gauges are loads by name. The zero value is ready for use and has the gauge [Process]. It is safe
// for concurrent use; Load takes no lock that is held for long.
type Gauges struct {
	process process

	mu    sync.RWMutex
	funcs map[string]func() (float64, bool)
	set   map[string]reading
}

// reading is a value set by Set.
type reading struct {
	load  float64
	until time.Time
}

// Set sets the load of a gauge for the time ttl. It returns an [*Error] and changes nothing if the
// load is below 0, above MaxLoad or not a number, if ttl is outside MinTTL to MaxTTL, if the name
// is invalid, or if the gauge is read by a function.
func (g *Gauges) Set(name string, load float64, ttl time.Duration) error {
	switch {
	case math.IsNaN(load) || load < 0:
		return &Error{"load", fmt.Sprintf("%v is not a load", load), "give a number from 0 (idle) to 1 (full capacity)"}
	case load > MaxLoad:
		return &Error{"load", fmt.Sprintf("%v is above %d", load, MaxLoad), "1 is full capacity: write 0.2 for 20 %"}
	case ttl < MinTTL || ttl > MaxTTL:
		return &Error{"ttl", fmt.Sprintf("%v is outside %v to %v", ttl, MinTTL, MaxTTL), "give the time for which the load is valid: two or three times the interval between updates"}
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

// Func makes a gauge call f, which returns the load and whether it is fresh. f is called during
// requests, so it must be quick, and safe for concurrent use. A load that Set would refuse is not
// fresh. f replaces a value of Set and the built-in gauge; a nil f removes the function.
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

// Load returns the load of a gauge and whether it is fresh; 0 and false if it is not.
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

// Names returns the names of all gauges that were set or have a function, sorted.
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
