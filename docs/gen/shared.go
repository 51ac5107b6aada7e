package main

import "fmt"

// The geometry of the picture of a shared store, in pixels.
const (
	sharedWidth  = 880
	sharedHeight = 330
	nodeLeft     = 20.0
	nodeWidth    = 250.0
	nodeHeight   = 76.0
	nodeStep     = 92.0
	serverLeft   = 540.0
	serverWidth  = 320.0
)

// sharedPicture draws three nodes that share a Redis.
func sharedPicture() string {
	c := newCanvas(sharedWidth, sharedHeight, "Several nodes and one Redis: takes that wait at the same time are sent together in one script call")
	middle := 24 + (2*nodeStep+nodeHeight)/2
	for i, waiting := range []int{1, 5, 3} {
		y := 24 + nodeStep*float64(i)
		c.frame(nodeLeft, y, nodeWidth, nodeHeight)
		c.text("mono bold", "start", nodeLeft+12, y+22, "stint serve")
		c.text("soft", "end", nodeLeft+nodeWidth-12, y+22, fmt.Sprintf("node %d", i+1))
		for n := range waiting {
			c.frame(nodeLeft+12+float64(n)*26, y+38, 20, 22)
		}
		words := "waiting takes are sent as one"
		if waiting == 1 {
			words = "a single take is sent at once"
		}
		c.text("soft", "start", nodeLeft+nodeWidth+14, y+nodeHeight/2-10, words)
		c.line("line", nodeLeft+nodeWidth, y+nodeHeight/2, serverLeft-54, y+nodeHeight/2)
		c.path("line", fmt.Sprintf("M%s %sL%s %s", num(serverLeft-54), num(y+nodeHeight/2), num(serverLeft-8), num(middle)))
	}
	c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %s", num(serverLeft-18), num(middle-6), num(serverLeft-8), num(middle), num(serverLeft-18), num(middle+6)))
	c.frame(serverLeft, 24, serverWidth, 2*nodeStep+nodeHeight)
	c.text("bold", "start", serverLeft+16, 50, "Redis")
	c.text("soft", "end", serverLeft+serverWidth-16, 50, "one script, one round trip")
	for i, step := range []struct{ does, what string }{
		{"TIME", "the only clock that is used"},
		{"read", "all states of the call"},
		{"decide", "all takes, or none"},
		{"write", "each state with its time to live"},
	} {
		y := 84 + 30*float64(i)
		c.text("mono bold", "start", serverLeft+16, y, step.does)
		c.text("soft", "start", serverLeft+96, y, step.what)
	}
	c.text("mono soft", "start", serverLeft+16, 226, "stint:token_bucket:rrapi/user|2:42")
	c.text("mono soft", "start", serverLeft+16, 250, "1b 100 60000000 100|17672256012…")
	c.text("soft", "end", sharedWidth-20, sharedHeight-14, "No node has counts of its own, and no node asks another.")
	return c.finish()
}

// frame draws an empty box.
func (c *canvas) frame(x, y, width, height float64) {
	fmt.Fprintf(c, `<rect class="line" fill="none" x="%s" y="%s" width="%s" height="%s" rx="5"/>`+"\n", num(x), num(y), num(width), num(height))
}
