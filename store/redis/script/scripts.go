package script

import (
	"fmt"
	"sync/atomic"

	"github.com/redis/rueidis"

	"stint"
)

// Scripts are the scripts that decide nearly all takes: Quick any group of calls, Few a smaller call
// that is sent alone, and One one take. [Decide] decides everything else, and the states that they
// cannot read.
type Scripts struct{ One, Few, Quick *rueidis.Lua }

// Plain are the scripts for takes whose answer no lost loan changes.
var Plain = newScripts(Text("plain"))

// In returns the scripts for takes of keys that may be lent. They decide only in an epoch, began,
// below 0 if it follows a loss, and in a server's process, the address of its interpreter.
func In(began stint.Instant, process int64) *Scripts {
	here := fmt.Sprintf("table: 0x%x", process)
	epoch := fmt.Sprintf("%d ", max(began, -began))
	return newScripts(fmt.Sprintf("local process, mark, epoch, lost = '%s', '%s%d %s', '%s', %t\n", here, epoch, Flag(began < 0), here, epoch, began < 0))
}

func newScripts(head string) *Scripts {
	return &Scripts{
		One:   rueidis.NewLuaScript(head + Text("one")),
		Few:   rueidis.NewLuaScript(head + Text("write", "few")),
		Quick: rueidis.NewLuaScript(head + Text("write", "quick")),
	}
}

// decide has decide.lua for every set of algorithms, so that the server does not parse algorithms
// that a call does not need. Each is made when it is first needed.
var decide [All + 1]atomic.Pointer[rueidis.Lua]

// Decide returns decide.lua for a set of algorithms.
func Decide(set Kinds) *rueidis.Lua {
	if made := decide[set].Load(); made != nil {
		return made
	}
	decide[set].CompareAndSwap(nil, rueidis.NewLuaScript(set.Text()))
	return decide[set].Load()
}
