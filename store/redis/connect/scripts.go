package connect

import (
	"sync/atomic"

	"github.com/redis/rueidis"

	"stint/store/redis/script"
)

// QuickScripts decide nearly all takes: Quick any group of calls, Few a smaller call that is sent
// alone, and One one take. decide.lua decides everything else, and the states that they cannot read.
type QuickScripts struct{ One, Few, Quick *rueidis.Lua }

// PlainScripts are for takes whose answer no lost loan changes.
var PlainScripts = NewQuickScripts(script.Plain())

// NewQuickScripts returns the quick scripts with a first part.
func NewQuickScripts(head string) *QuickScripts {
	return &QuickScripts{
		One:   rueidis.NewLuaScript(head + script.Text("one")),
		Few:   rueidis.NewLuaScript(head + script.Text("write", "few")),
		Quick: rueidis.NewLuaScript(head + script.Text("write", "quick")),
	}
}

// LeaseScript is lease.lua.
var LeaseScript = rueidis.NewLuaScript(script.Text("terms", "lease"))

// scripts are decide.lua for every set of algorithms, so that the server does not parse algorithms
// that a call does not need. Each is made when it is first needed.
var scripts [int(script.All) + 1]atomic.Pointer[rueidis.Lua]

// DecideScript returns decide.lua for a set of algorithms.
func DecideScript(set script.Kinds) *rueidis.Lua {
	if made := scripts[set].Load(); made != nil {
		return made
	}
	scripts[set].CompareAndSwap(nil, rueidis.NewLuaScript(set.Text()))
	return scripts[set].Load()
}
