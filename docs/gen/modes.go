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

// mode is the picture of a coordination mode.
type mode struct {
	name  string
	title string
	nodes [3]string // text in each node
	what  [2]string // messages between a node and the right side, above and below the line
	right func(c *canvas)
	note  string
}

var modes = []mode{
	{
		"strict", "strict: each take asks the store",
		[3]string{"no counts", "no counts", "no counts"},
		[2]string{"take 1 of user=42", "allowed; or denied, retry after 120 ms"},
		func(c *canvas) { store(c, []string{"decides all takes,", "one after the other"}, nil) },
		"Exact. Each take needs one round trip.",
	},
	{
		"leased", "leased: nodes borrow units of busy keys from the store",
		[3]string{"has 12 units of api/user=42", "has 9 units of api/user=42", "asks each time: few requests here"},
		[2]string{"used 3, have 9, request 20", "lent: 20, for 2 s"},
		func(c *canvas) {
			store(c, []string{"units in the store and lent units", "together never exceed the burst"}, []part{
				{0.5, "in the store", "area"}, {0.14, "lent", "held"}, {0.13, "lent", "held"}, {0.23, "used", ""},
			})
		},
		"Exact, with few messages. A refill leaves room for the units that are lent.",
	},
	{
		"eventual", "eventual: each node decides alone and reports its counts to the store",
		[3]string{"counts 31 here, 52 on others", "counts 29 here, 54 on others", "counts 23 here, 60 on others"},
		[2]string{"every 100 ms: 31 more here", "all nodes together: 83"},
		func(c *canvas) {
			store(c, []string{"adds the counts of all nodes,", "also above the limit: the excess", "is a debt that is paid off later"}, []part{
				{0.8, "the limit", "area"}, {0.2, "debt", "deny"},
			})
		},
		"No request waits. Too many may pass before nodes exchange counts, but only once, not in each window.",
	},
	{
		"gossip", "gossip: nodes send their counts to each other, without a store",
		[3]string{"31 here, 29 + 23 received", "29 here, 31 + 20 received", "23 here, 31 + 29 received"},
		[2]string{"", ""},
		gossips,
		"No request waits, and no store is needed. Disconnected parts count separately until they reconnect.",
	},
	{
		"sticky", "sticky: a load balancer always sends a client to the same node",
		[3]string{"counts clients a, d", "counts clients b, e, f", "counts client c"},
		[2]string{"", ""},
		balancer,
		"Exact, without a store, as long as the set of nodes does not change.",
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

// both draws a line with an arrow head at each end.
func (c *canvas) both(from, to, y float64) {
	c.path("line", fmt.Sprintf("M%s %sL%s %sL%s %sM%s %sL%s %sM%s %sL%s %sL%s %s",
		num(from+7), num(y-5), num(from), num(y), num(from+7), num(y+5), num(from), num(y), num(to), num(y),
		num(to-7), num(y-5), num(to), num(y), num(to-7), num(y+5)))
}

// part is a part of a bar: its share, its text, and its style.
type part struct {
	share float64
	label string
	class string
}

// store draws the store with some lines of text, and a bar of the units of a key.
func store(c *canvas, lines []string, bar []part) {
	height := 2*boxStep + boxHeight
	c.frame(rightX, top, rightWidth, height)
	c.text("bold", "start", rightX+16, top+28, "the store")
	for i, line := range lines {
		c.text("soft", "start", rightX+16, top+58+22*float64(i), line)
	}
	if bar == nil {
		return
	}
	x, y, whole := rightX+16, top+height-78, rightWidth-32
	for _, p := range bar {
		width := whole * p.share
		fmt.Fprintf(c, `<rect class="%s" fill="none" x="%s" y="%s" width="%s" height="30"/>`+"\n", p.class, num(x+1), num(y), num(width-2))
		c.text("soft", "middle", x+width/2, y+50, p.label)
		x += width
	}
	c.path("line", fmt.Sprintf("M%s %sL%s %s", num(rightX+16), num(y+30), num(rightX+16+whole), num(y+30)))
}

// gossips draws the messages between nodes.
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
		"every 100 ms, to all nodes: the units",
		"taken since, and their total", "",
		"A duplicate message changes nothing,", "a lost message is requested again.",
		"A new node receives all counts.",
	} {
		c.text("soft", "start", edge+150, mid(0)+8+24*float64(i), line)
	}
}

// balancer draws the load balancer before the nodes.
func balancer(c *canvas) {
	height := 2*boxStep + boxHeight
	c.frame(rightX, top, rightWidth, height)
	c.text("bold", "start", rightX+16, top+28, "nginx, HAProxy or Envoy")
	for i, line := range []string{"hashes the key of the limit:", "the API key, or the address", "", "the same hash: the same node"} {
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
