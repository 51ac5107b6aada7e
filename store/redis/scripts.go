package redis

import (
	"github.com/redis/rueidis"

	"stint/store/redis/script"
)

// The scripts that decide what nearly all takes are: any group of calls by quick.lua, a
// call that travels alone for less by few.lua, and one take by one.lua. Everything
// else, and what they cannot read, is left to decide.lua.
var (
	quickScript = rueidis.NewLuaScript(script.Text("write", "quick"))
	fewScript   = rueidis.NewLuaScript(script.Text("write", "few"))
	oneScript   = rueidis.NewLuaScript(script.Text("one"))
)

// scripts are the scripts for every set of algorithms, so that the server does not go through
// the text of those that a call does not need.
var scripts = func() (scripts [script.All + 1]*rueidis.Lua) {
	for set := range scripts {
		scripts[set] = rueidis.NewLuaScript(script.Kinds(set).Text())
	}
	return scripts
}()
