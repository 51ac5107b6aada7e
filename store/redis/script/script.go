// Package script contains the Lua scripts that decide inside Redis, and encodes limits for them.
// Package redis sends the scripts and reads their answers.
package script

import (
	"embed"
	"slices"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// Kinds is a set of Lua files, by the algorithms that a call needs.
type Kinds uint16

// Lend is the file for loans, Usage that for histories, Grants that for grants, Durable that for losses, All is every file.
const (
	bucketKind Kinds = 1 << iota
	reserveKind
	windowKind
	logKind
	slidingKind
	penaltyKind
	Lend
	Usage
	Grants
	Durable
	All Kinds = 1<<iota - 1
)

// Text returns the script for a set of algorithms.
func (set Kinds) Text() string {
	files := []string{"common"}
	if set&(reserveKind|slidingKind) != 0 {
		files = append(files, "queue")
	}
	for _, f := range []struct {
		kind Kinds
		name string
	}{
		{bucketKind, "bucket"},
		{reserveKind, "reserve"},
		{windowKind, "window"},
		{logKind, "log"},
		{slidingKind, "sliding"},
		{penaltyKind, "penalty"},
		{Lend, "terms"},
		{Lend, "lend"},
		{Usage, "usage"},
		{Grants, "grants"},
		{Durable, "durable"},
	} {
		if set&f.kind != 0 {
			files = append(files, f.name)
		}
	}
	return Text(append(files, "decide")...)
}

// blocks are the files whose local variables no other file uses. They are blocks of a script, as it has at
// most 200 local variables.
var blocks = map[string]bool{"usage": true, "grants": true, "durable": true}

// Text returns the Lua files with these names as one script. Lines "@loans" and "@steady" stand for loans.lua and steady.lua.
func Text(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		lua, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("stint: " + err.Error()) // the files are embedded in the program
		}
		if blocks[name] {
			lua = slices.Concat([]byte("do\n"), lua, []byte("end\n"))
		}
		b.Write(lua)
	}
	return included.Replace(b.String())
}

// included replaces lines that stand for a file.
var included = func() *strings.Replacer {
	var lines []string
	for _, name := range []string{"loans", "steady"} {
		lua, _ := sources.ReadFile("lua/" + name + ".lua")
		lines = append(lines, "@"+name+"\n", string(lua))
	}
	return strings.NewReplacer(lines...)
}()
