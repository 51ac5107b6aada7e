package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// style is the style of all pictures, for light and dark mode.
const style = `
  text { font: 13px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .paper { fill: #ffffff } .faint { stroke: #d0d7de } .dash { stroke: #8c959f } .line { stroke: #1f2328; fill: none; stroke-width: 1.5 }
  .area { fill: #ddf4ff } .pass { stroke: #1a7f37 } .deny { stroke: #cf222e } .held { stroke: #9a6700 }
  .soft { fill: #59636e } .bold { font-weight: 600 } .mono { font-family: ui-monospace, Menlo, Consolas, monospace }
  .pass, .deny, .held { stroke-width: 2.5; fill: none } .thin { stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .paper { fill: #0d1117 } .faint { stroke: #30363d } .dash { stroke: #6e7681 } .line { stroke: #e6edf3 }
    .area { fill: #10273d } .pass { stroke: #3fb950 } .deny { stroke: #f85149 } .held { stroke: #d29922 } .soft { fill: #9198a1 }
  }
`

// canvas collects the elements of one picture.
type canvas struct {
	strings.Builder
}

// newCanvas begins a picture; title is the text for screen readers.
func newCanvas(width, height int, title string) *canvas {
	c := new(canvas)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(c, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(title), style)
	fmt.Fprintf(c, `<rect class="paper" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	return c
}

// finish returns the whole picture.
func (c *canvas) finish() string { return c.String() + "</svg>\n" }

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<path class="%s" d="M%s %sL%s %s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

func (c *canvas) path(class, d string) {
	fmt.Fprintf(c, `<path class="%s" d="%s"/>`+"\n", class, d)
}

// text writes at the baseline y; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(c, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`+"\n", class, anchor, num(x), num(y), html.EscapeString(text))
}

// num formats a coordinate to a tenth of a pixel.
func num(v float64) string { return strconv.FormatFloat(float64(int(v*10+0.5))/10, 'f', -1, 64) }
