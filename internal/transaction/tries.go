package transaction

import (
	"sync"
	"time"

	"stint"
)

// reportAfter is how long a gathered try waits at most before it is counted. maxGathered is the most
// keys that are gathered; tries of further ones are counted at once. maxReport is the most keys in
// one call.
const (
	reportAfter = 900 * time.Millisecond
	maxGathered = 16384
	maxReport   = 128
)

// Tries are the denied tries of penalties that are not counted in the store yet. The zero Tries is empty.
// It is safe for concurrent use.
type Tries struct {
	Decide func(*stint.Call) error // counts them; set it before the first try

	mu      sync.Mutex
	waiting map[stint.Key]stint.Take // by the key of the penalty; the cost is the number of tries
	timer   bool                     // a report is due
}

// Gather keeps a denied try of a penalty for later. It returns false if too many keys wait, or if the
// try may start a step, which its answer must say: the tries of the key that wait, this one and the
// denial before them, which the store counted, are more than start nothing.
func (g *Tries) Gather(t *stint.Take) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.waiting[t.Key]
	if one.Cost+1 >= t.Limit.Spec().Requests {
		return false
	}
	if ok {
		one.Cost++
		g.waiting[one.Key] = one
		return true
	}
	if len(g.waiting) >= maxGathered {
		return false
	}
	if g.waiting == nil {
		g.waiting = map[stint.Key]stint.Take{}
	}
	one = t.Clone()
	one.Op, one.Cost, one.Independent, one.Undo = stint.Settle, 1, true, new(stint.Decision)
	g.waiting[one.Key] = one
	if !g.timer {
		g.timer = true
		time.AfterFunc(reportAfter, g.Report)
	}
	return true
}

// Take removes the tries of a penalty's key, and returns the take that counts them.
func (g *Tries) Take(t *stint.Take) (late stint.Take, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if late, ok = g.waiting[t.Key]; ok {
		delete(g.waiting, t.Key)
	}
	return late, ok
}

// Report counts all gathered tries. After an error the others are not counted: the store is away.
func (g *Tries) Report() {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting, g.timer = nil, false
	g.mu.Unlock()
	var call stint.Call
	for _, t := range waiting {
		if call.Takes = append(call.Takes, t); len(call.Takes) < maxReport {
			continue
		}
		if g.Decide(&call) != nil {
			return
		}
		call.Takes = call.Takes[:0]
	}
	if len(call.Takes) > 0 {
		_ = g.Decide(&call)
	}
}
