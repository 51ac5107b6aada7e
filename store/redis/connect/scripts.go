package redis

import (
	"sync/atomic"

	"github.com/redis/rueidis"

	"stint/store/redis/script"
)

// quickScripts decide nearly all takes: quick any group of calls, few a smaller call that is sent
// alone, and one one take. decide.lua decides everything else, and the states that they cannot read.
type quickScripts struct{ one, few, quick *rueidis.Lua }

// plainScripts are for takes whose answer no lost loan changes.
var plainScripts = newQuickScripts(script.Plain())

// newQuickScripts returns the quick scripts with a first part.
func newQuickScripts(head string) *quickScripts {
	return &quickScripts{
		one:   rueidis.NewLuaScript(head + script.Text("one")),
		few:   rueidis.NewLuaScript(head + script.Text("write", "few")),
		quick: rueidis.NewLuaScript(head + script.Text("write", "quick")),
	}
}

// leaseScript is lease.lua.
var leaseScript = rueidis.NewLuaScript(script.Text("terms", "lease"))

// scripts are decide.lua for every set of algorithms, so that the server does not parse algorithms
// that a call does not need. Each is made when it is first needed.
var scripts [int(script.All) + 1]atomic.Pointer[rueidis.Lua]

// decideScript returns decide.lua for a set of algorithms.
func decideScript(set script.Kinds) *rueidis.Lua {
	if made := scripts[set].Load(); made != nil {
		return made
	}
	scripts[set].CompareAndSwap(nil, rueidis.NewLuaScript(set.Text()))
	return scripts[set].Load()
}
