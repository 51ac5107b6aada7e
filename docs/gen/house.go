package main

import (
	"fmt"
	"path/filepath"
)

// box is a package in the picture of the architecture. One whose folder holds
// no Go files yet is drawn dashed.
type box struct {
	dir  string // from the root of the repository
	name string // what the picture says; "" for dir
	says string
}

// floor is a row of packages; each floor imports only what stands below it.
type floor struct {
	title string
	boxes []box
}

// floors are the packages from the top down.
var floors = []floor{
	{"run it", []box{
		{"cmd/stint", "", "flags and signals"},
	}},
	{"wire it", []box{
		{"app", "", "the service and its life: start, reload, drain"},
		{"replay", "", "access logs against rules"},
	}},
	{"ask it", []box{
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
		{"pace", "", "a caller waits, reserves, queues"},
	}},
	{"know, keep", []box{
		{"rule", "", "files to a table"},
		{"store/memory", "", "in this process"},
		{"store/redis", "", "shared"},
		{"store/memcached", "", "shared"},
		{"chain", "", "before the store"},
		{"fleet", "", "how nodes agree"},
	}},
	{"the core", []box{
		{".", "stint", "Limit, State, Take, Decision, Store and the algorithms: standard library only, time is an argument"},
	}},
}

// The geometry of the architecture, in pixels.
const (
	houseWidth  = 930
	houseLeft   = 124.0
	houseRight  = 914.0
	floorHeight = 50.0
	floorStep   = 80.0
)

// housePicture draws the floors; root is the root of the repository.
func housePicture(root string) string {
	height := int(floorStep*float64(len(floors))) + 36
	c := newCanvas(houseWidth, height, "The packages of Stint: imports point downwards")
	for i, f := range floors {
		y := 24 + floorStep*float64(i)
		c.text("bold", "start", 16, y+floorHeight/2+5, f.title)
		f.draw(c, y, root)
		if i+1 < len(floors) {
			c.arrow((houseLeft+houseRight)/2, y+floorHeight+6, y+floorStep-6)
		}
	}
	c.text("soft", "end", houseRight, float64(height)-12, "Imports point downwards only. Dashed: not built yet.")
	return c.finish()
}

// draw draws the boxes side by side, wider where their text is longer.
func (f floor) draw(c *canvas, y float64, root string) {
	const gap = 10.0
	letters := 0.0
	for _, b := range f.boxes {
		letters += b.letters()
	}
	x, room := houseLeft, houseRight-houseLeft-gap*float64(len(f.boxes)-1)
	for _, b := range f.boxes {
		width := room * b.letters() / letters
		c.box(x, y, width, b, built(filepath.Join(root, b.dir)))
		x += width + gap
	}
}

// letters is how wide the box wants to be, with a margin; a letter of the name is
// the wider one.
func (b box) letters() float64 { return max(1.2*float64(len(b.dir)), float64(len(b.says))) + 5 }

// built says whether the folder, or one right below it, holds Go files.
func built(dir string) bool {
	for _, below := range []string{"", "*"} {
		files, err := filepath.Glob(filepath.Join(dir, below, "*.go"))
		if err == nil && len(files) > 0 {
			return true
		}
	}
	return false
}

// box draws a package with its name over what it is for.
func (c *canvas) box(x, y, width float64, b box, solid bool) {
	class, dash := "line", ""
	if !solid {
		class, dash = "dash", ` stroke-dasharray="5 4" fill="none"`
	}
	fmt.Fprintf(c, `<rect class="%s"%s x="%s" y="%s" width="%s" height="%s" rx="5"/>`+"\n",
		class, dash, num(x), num(y), num(width), num(floorHeight))
	name, weight := b.name, "mono bold"
	if name == "" {
		name = b.dir
	}
	if !solid {
		weight = "mono soft"
	}
	c.text(weight, "middle", x+width/2, y+21, name)
	c.text("soft", "middle", x+width/2, y+40, b.says)
}

// arrow points down.
func (c *canvas) arrow(x, from, to float64) {
	c.line("line", x, from, x, to)
	c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %s", num(x-5), num(to-6), num(x), num(to), num(x+5), num(to-6)))
}
