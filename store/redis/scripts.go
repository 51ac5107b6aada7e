package redis

import (
	"sync/atomic"

	"github.com/redis/rueidis"

	"stint/store/redis/script"
)

// These scripts decide nearly all takes: quick.lua any group of calls, few.lua a smaller call that
// is sent alone, one.lua one take, and leasable.lua one take of a key that may be lent. decide.lua
// decides everything else, and the states that they cannot read.
var (
	quickScript    = rueidis.NewLuaScript(script.Text("loans", "write", "quick"))
	fewScript      = rueidis.NewLuaScript(script.Text("write", "few"))
	oneScript      = rueidis.NewLuaScript(script.Text("one"))
	leasableScript = rueidis.NewLuaScript(script.Text("loans", "leasable"))
)

// scripts are decide.lua for every set of algorithms, so that the server does not parse algorithms
// that a call does not need. Each is made when it is first needed.
var scripts [script.All + 1]atomic.Pointer[rueidis.Lua]

// decideScript returns decide.lua for a set of algorithms.
func decideScript(set script.Kinds) *rueidis.Lua {
	if made := scripts[set].Load(); made != nil {
		return made
	}
	scripts[set].CompareAndSwap(nil, rueidis.NewLuaScript(set.Text()))
	return scripts[set].Load()
}
