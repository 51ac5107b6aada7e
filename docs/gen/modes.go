package main

import "fmt"

// The geometry of the pictures of the modes, in pixels.
const (
	modeWidth  = 880
	modeHeight = 318
	boxHeight  = 70.0
	boxStep    = 84.0
	leftX      = 20.0
	leftWidth  = 250.0
	rightX     = 560.0
	rightWidth = 300.0
	top        = 24.0
)

// mode is a picture of how nodes agree.
type mode struct {
	name  string
	title string
	nodes [3]string // what each has
	what  [2]string // travels between a node and the right side, over and under the line
	right func(c *canvas)
	note  string
}

var modes = []mode{
	{
		"strict", "strict: each take asks the store",
		[3]string{"counts nothing", "counts nothing", "counts nothing"},
		[2]string{"may this pass?", "yes; no, come back in 120 ms"},
		func(c *canvas) { store(c, []string{"decides all takes", "one after the other"}, nil) },
		"Exact, for one round trip each.",
	},
	{
		"leased", "leased: the store lends a busy key's units, which stay inside the burst",
		[3]string{"holds 12 of api/user=42", "holds 9 of api/user=42", "asks for each, it is rare here"},
		[2]string{"3 spent, 9 left, give me 20", "20 more, for 2 s"},
		func(c *canvas) {
			store(c, []string{"what is in the store", "and what is lent and perhaps unspent", "is never more than the burst"}, []part{
				{0.5, "in the store", "area"}, {0.14, "lent", "held"}, {0.13, "lent", "held"}, {0.23, "used", ""},
			})
		},
		"Exact, for a message now and then: a refill never fills the place of what is lent.",
	},
	{
		"eventual", "eventual: each node decides alone, and tells the store what it took",
		[3]string{"31 here, 52 elsewhere", "29 here, 54 elsewhere", "23 here, 60 elsewhere"},
		[2]string{"every 100 ms: 31 more here", "all together took 83"},
		func(c *canvas) {
			store(c, []string{"adds up what nodes took,", "above the limit too: what passed", "too much is owed, and paid off"}, []part{
				{0.8, "the limit", "area"}, {0.2, "owed", "deny"},
			})
		},
		"Nobody waits. What passes too much while nobody has heard of it passes once, not in each window.",
	},
	{
		"gossip", "gossip: nodes tell each other what they took, without any store",
		[3]string{"31 here, 29 + 23 heard", "29 here, 31 + 20 heard", "23 here, 31 + 29 heard"},
		[2]string{"", ""},
		gossips,
		"Nobody waits, and nothing else has to run. Parts that cannot hear each other count apart until they can.",
	},
	{
		"sticky", "sticky: a load balancer sends a client always to the same node",
		[3]string{"counts clients a, d", "counts clients b, e, f", "counts client c"},
		[2]string{"", ""},
		balancer,
		"Exact and alone, while the set of nodes stays what it is.",
	},
}

// picture draws the mode.
func (m *mode) picture() string {
	c := newCanvas(modeWidth, modeHeight, m.title)
	for i, has := range m.nodes {
		y := top + boxStep*float64(i)
		c.frame(leftX, y, leftWidth, boxHeight)
		c.text("mono bold", "start", leftX+12, y+24, "stint serve")
		c.text("soft", "end", leftX+leftWidth-12, y+24, fmt.Sprintf("node %d", i+1))
		c.text("", "start", leftX+12, y+50, has)
		if m.what[0] != "" {
			c.both(leftX+leftWidth+8, rightX-8, y+boxHeight/2)
		}
	}
	y := top + boxStep + boxHeight/2
	c.text("soft", "middle", (leftX+leftWidth+rightX)/2, y-8, m.what[0])
	c.text("soft", "middle", (leftX+leftWidth+rightX)/2, y+20, m.what[1])
	m.right(c)
	c.text("soft", "end", modeWidth-20, modeHeight-16, m.note)
	return c.finish()
}

// both draws a line with a head at either end.
func (c *canvas) both(from, to, y float64) {
	c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %sM%s %sL%s %sM%s %sL%s %sL%s %s",
		num(from+7), num(y-5), num(from), num(y), num(from+7), num(y+5), num(from), num(y), num(to), num(y),
		num(to-7), num(y-5), num(to), num(y), num(to-7), num(y+5)))
}

// part is a part of a bar: how much of it, what it is, and its look.
type part struct {
	share float64
	says  string
	class string
}

// store draws the store with some words, and a bar of what it has of a key.
func store(c *canvas, says []string, bar []part) {
	height := 2*boxStep + boxHeight
	c.frame(rightX, top, rightWidth, height)
	c.text("bold", "start", rightX+16, top+28, "the store")
	for i, line := range says {
		c.text("soft", "start", rightX+16, top+58+22*float64(i), line)
	}
	if bar == nil {
		return
	}
	x, y, whole := rightX+16, top+height-78, rightWidth-32
	for _, p := range bar {
		width := whole * p.share
		fmt.Fprintf(c, `<rect class="%s" fill="none" x="%s" y="%s" width="%s" height="30"/>`+"\n", p.class, num(x+1), num(y), num(width-2))
		c.text("soft", "middle", x+width/2, y+50, p.says)
		x += width
	}
	c.path("line", fmt.Sprintf("M%s %sL%s %s", num(rightX+16), num(y+30), num(rightX+16+whole), num(y+30)))
}

// gossips draws who tells whom.
func gossips(c *canvas) {
	edge := leftX + leftWidth + 8
	mid := func(i float64) float64 { return top + boxStep*i + boxHeight/2 }
	for _, pair := range []struct{ a, b, in, out float64 }{{0, 1, 10, 50}, {1, 2, 10, 50}, {0, 2, -10, 110}} {
		from, to := mid(pair.a)+pair.in, mid(pair.b)-pair.in
		c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %sM%s %sL%s %sL%s %sL%s %sM%s %sL%s %sL%s %s",
			num(edge+7), num(from-5), num(edge), num(from), num(edge+7), num(from+5),
			num(edge), num(from), num(edge+pair.out), num(from), num(edge+pair.out), num(to), num(edge), num(to),
			num(edge+7), num(to-5), num(edge), num(to), num(edge+7), num(to+5)))
	}
	for i, line := range []string{
		"every 100 ms, to all: what was taken here",
		"since, and how much in all", "",
		"A message that comes twice changes nothing,", "one that is lost is asked for.",
		"Who joins is told all that is known.",
	} {
		c.text("soft", "start", edge+150, mid(0)+8+24*float64(i), line)
	}
}

// balancer draws what stands before the nodes.
func balancer(c *canvas) {
	height := 2*boxStep + boxHeight
	c.frame(rightX, top, rightWidth, height)
	c.text("bold", "start", rightX+16, top+28, "nginx, HAProxy or Envoy")
	for i, line := range []string{"hashes what is counted:", "the API key, or the address", "", "the same hash, the same node"} {
		c.text("soft", "start", rightX+16, top+58+22*float64(i), line)
	}
	for i, who := range []string{"a d", "b e f", "c"} {
		y := top + boxStep*float64(i) + boxHeight/2
		from, to := rightX-8, leftX+leftWidth+8
		c.path("line", fmt.Sprintf("M%s %sL%s %sM%s %sL%s %sL%s %s",
			num(from), num(y), num(to), num(y), num(to+7), num(y-5), num(to), num(y), num(to+7), num(y+5)))
		c.text("mono soft", "middle", (from+to)/2, y-8, who)
	}
}
