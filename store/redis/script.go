package redis

import (
	"embed"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// kindSet is a set of the files that the algorithms of a call need.
type kindSet uint8

const (
	bucketKind kindSet = 1 << iota
	holdKind
	windowKind
	logKind
	slidingKind
	lendKind
	allKinds kindSet = 1<<iota - 1
)

// scripts are the scripts for every set of algorithms, as not to make the server go
// through the text of those that a call does not need.
var scripts [allKinds + 1]*rueidis.Lua

// text returns the script for a set of algorithms.
func (set kindSet) text() string {
	files := []string{"common"}
	if set&(holdKind|slidingKind) != 0 {
		files = append(files, "queue")
	}
	for _, f := range []struct {
		kind kindSet
		name string
	}{
		{bucketKind, "bucket"},
		{holdKind, "hold"},
		{windowKind, "window"},
		{logKind, "log"},
		{slidingKind, "sliding"},
		{lendKind, "lend"},
	} {
		if set&f.kind != 0 {
			files = append(files, f.name)
		}
	}
	return text(append(files, "decide")...)
}

// text returns the script that several files make.
func text(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		lua, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("stint: " + err.Error()) // it is part of the program
		}
		b.Write(lua)
	}
	return b.String()
}

func init() {
	for set := range scripts {
		scripts[set] = rueidis.NewLuaScript(kindSet(set).text())
	}
}
