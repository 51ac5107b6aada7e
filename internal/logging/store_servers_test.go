package logging

import (
	"fmt"
	"testing"
)

// TestSet: a problem of a server is logged once, and its end once. A different server with the same
// number counts as a new server.
func TestSet(t *testing.T) {
	var s StoreServers
	a, b, c := StoreServer{0, "a:1"}, StoreServer{1, "b:1"}, StoreServer{1, "c:1"}
	state := func() (text string) {
		s.Each(func(server StoreServer, well bool) { text += fmt.Sprint(server.Name, " ", well, ", ") })
		return text + fmt.Sprint(s.Doubtful(), " ", s.Problem())
	}
	for i, step := range []struct {
		do   func() any
		want any
		then string
	}{
		{func() any { return s.Doubtful() }, false, " true, false "},
		{func() any { return s.Fails(StoreServer{AllServers, ""}, "nobody answers") }, true, " false, true nobody answers"},
		{func() any { return fmt.Sprint(s.Present([]StoreServer{a, b})) }, "[{-1 }]", "a:1 true, b:1 true, false "},
		{func() any { return s.Fails(b, "frozen") }, true, "a:1 true, b:1 false, true b:1: frozen"},
		{func() any { return s.Fails(b, "still frozen") }, false, "a:1 true, b:1 false, true b:1: still frozen"},
		{func() any { return s.Fails(a, "full") }, true, "a:1 false, b:1 false, true a:1: full; b:1: still frozen"},
		{func() any { return s.Well(a) }, true, "a:1 true, b:1 false, true b:1: still frozen"},
		{func() any { return s.Well(a) }, false, "a:1 true, b:1 false, true b:1: still frozen"},
		{func() any { s.Answers(b); return nil }, nil, "a:1 true, b:1 true, true "},
		{func() any { return s.Fails(b, "frozen") }, false, "a:1 true, b:1 false, true b:1: frozen"},
		{func() any { return fmt.Sprint(s.Present([]StoreServer{a, c})) }, "[{1 b:1}]", "a:1 true, c:1 true, false "},
		{func() any { return s.Well(c) }, false, "a:1 true, c:1 true, false "},
		{func() any { return s.Idle(c, 5) }, false, "a:1 true, c:1 true, false "},
		{func() any { return s.Idle(c, 5) }, true, "a:1 true, c:1 true, false "},
		{func() any { return s.Idle(c, 6) }, false, "a:1 true, c:1 true, false "},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
		if got := state(); got != step.then {
			t.Errorf("step %d: then %q, want %q", i, got, step.then)
		}
	}
}
