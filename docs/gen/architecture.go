package main

import (
	"fmt"
	"path/filepath"
)

// box is a package in the picture of the architecture. It is dashed if its folder has no Go files
// yet.
type box struct {
	dir   string // from the root of the repository
	name  string // name in the picture; "" for dir
	label string
}

// level is a row of packages; each imports only packages of lower rows.
type level struct {
	title string
	boxes []box
}

// levels are the rows from the top down.
var levels = []level{
	{"command", []box{
		{"cmd/stint", "", "flags and signals"},
	}},
	{"programs", []box{
		{"app", "", "the service: start, reload, drain"},
		{"replay", "", "access logs against rules"},
	}},
	{"protocols", []box{
		{"httplimit", "", "net/http"},
		{"grpclimit", "", "gRPC"},
		{"server/httpapi", "", "HTTP, JSON"},
		{"server/rls", "", "Envoy"},
		{"server/resp", "", "Redis protocol"},
		{"gateway", "", "reverse proxy"},
		{"telemetry", "", "metrics"},
	}},
	{"decide", []box{
		{"limiter", "", "descriptors in, takes, store, verdict out"},
		{"pace", "", "waiting, reserving, queueing"},
	}},
	{"rules, stores", []box{
		{"rule", "", "rule files"},
		{"records", "", "plans, bans, keys"},
		{"store/memory", "", "in this process"},
		{"store/redis", "", "shared"},
		{"store/memcached", "", "shared"},
		{"chain", "", "around stores"},
		{"fleet", "", "coordination"},
	}},
	{"the core", []box{
		{".", "stint", "Limit, State, Take, Decision, Store and the algorithms: standard library only, time is an argument"},
	}},
}

// The geometry of the architecture, in pixels.
const (
	archWidth   = 930
	archLeft    = 124.0
	archRight   = 914.0
	levelHeight = 50.0
	levelStep   = 80.0
)

// architecturePicture draws the levels; root is the root of the repository.
func architecturePicture(root string) string {
	height := int(levelStep*float64(len(levels))) + 36
	c := newCanvas(archWidth, height, "The packages of Stint: imports point downwards")
	for i, f := range levels {
		y := 24 + levelStep*float64(i)
		c.text("bold", "start", 16, y+levelHeight/2+5, f.title)
		f.draw(c, y, root)
		if i+1 < len(levels) {
			c.arrow((archLeft+archRight)/2, y+levelHeight+6, y+levelStep-6)
		}
	}
	c.text("soft", "end", archRight, float64(height)-12, "Imports point downwards only. Dashed: not built yet.")
	return c.finish()
}

// draw draws the boxes side by side, wider where their text is longer.
func (f level) draw(c *canvas, y float64, root string) {
	const gap = 10.0
	letters := 0.0
	for _, b := range f.boxes {
		letters += b.letters()
	}
	x, room := archLeft, archRight-archLeft-gap*float64(len(f.boxes)-1)
	for _, b := range f.boxes {
		width := room * b.letters() / letters
		c.box(x, y, width, b, built(filepath.Join(root, b.dir)))
		x += width + gap
	}
}

// letters returns the width of the box in letters, with a margin; letters of the name are wider.
func (b box) letters() float64 { return max(1.2*float64(len(b.dir)), float64(len(b.label))) + 5 }

// built reports whether the folder, or a direct subfolder, has Go files.
func built(dir string) bool {
	for _, below := range []string{"", "*"} {
		files, err := filepath.Glob(filepath.Join(dir, below, "*.go"))
		if err == nil && len(files) > 0 {
			return true
		}
	}
	return false
}

// box draws a package with its name and its purpose.
func (c *canvas) box(x, y, width float64, b box, solid bool) {
	class, dash := "line", ""
	if !solid {
		class, dash = "dash", ` stroke-dasharray="5 4" fill="none"`
	}
	fmt.Fprintf(c, `<rect class="%s"%s x="%s" y="%s" width="%s" height="%s" rx="5"/>`+"\n",
		class, dash, num(x), num(y), num(width), num(levelHeight))
	name, weight := b.name, "mono bold"
	if name == "" {
		name = b.dir
	}
	if !solid {
		weight = "mono soft"
	}
	c.text(weight, "middle", x+width/2, y+21, name)
	c.text("soft", "middle", x+width/2, y+40, b.label)
}

// arrow draws an arrow down.
func (c *canvas) arrow(x, from, to float64) {
	c.line("line", x, from, x, to)
	c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %s", num(x-5), num(to-6), num(x), num(to), num(x+5), num(to-6)))
}
