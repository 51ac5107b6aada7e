// Package script holds the Lua that decides inside Redis, and what a limit looks like to it.
// Package redis sends it and reads its answers.
package script

import (
	"embed"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// Kinds is a set of the files that the algorithms of a call need.
type Kinds uint8

// The kinds that callers name: that of what is lent of a key to other nodes, and all of them.
const (
	bucketKind Kinds = 1 << iota
	holdKind
	windowKind
	logKind
	slidingKind
	Lend
	All Kinds = 1<<iota - 1
)

// Text returns the script for a set of algorithms.
func (set Kinds) Text() string {
	files := []string{"common"}
	if set&(holdKind|slidingKind) != 0 {
		files = append(files, "queue")
	}
	for _, f := range []struct {
		kind Kinds
		name string
	}{
		{bucketKind, "bucket"},
		{holdKind, "hold"},
		{windowKind, "window"},
		{logKind, "log"},
		{slidingKind, "sliding"},
		{Lend, "lend"},
	} {
		if set&f.kind != 0 {
			files = append(files, f.name)
		}
	}
	return Text(append(files, "decide")...)
}

// Text returns the script that several files make.
func Text(names ...string) string {
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
