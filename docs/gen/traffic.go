package main

import (
	"fmt"
	"strconv"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// comparison is one limit in the picture of all algorithms.
type comparison struct {
	label string
	spec  stint.Spec
}

// comparisons are five requests per second under every algorithm, and its variants.
var comparisons = []comparison{
	{"token_bucket", stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second}},
	{"token_bucket, refill: step", stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Step: true}},
	{"leaky_bucket, burst: 4", stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second, Burst: 4}},
	{"fixed_window", stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: time.Second}},
	{"fixed_window, align: first", stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: time.Second, FromFirst: true}},
	{"sliding_log", stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second}},
	{"sliding_window", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Second}},
	{"sliding_window, blocks: 10", stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Second, Blocks: 10}},
}

// offered returns the traffic of all rows: two bursts around the edge of a second, a steady stream
// at 1.6 times the rate, silence, and a last burst.
func offered() []time.Duration {
	var at []time.Duration
	add := func(from, step time.Duration, n int) {
		for i := range n {
			at = append(at, from+time.Duration(i)*step)
		}
	}
	add(700*time.Millisecond, 40*time.Millisecond, 6)
	add(1020*time.Millisecond, 40*time.Millisecond, 6)
	add(2000*time.Millisecond, 125*time.Millisecond, 9)
	add(4500*time.Millisecond, 40*time.Millisecond, 6)
	return at
}

// outcome is the decision on one request in a row.
type outcome struct {
	at time.Duration
	stint.Decision
}

// play decides the offered traffic for a fresh key.
func (l comparison) play() []outcome {
	limit, state := stint.MustLimit(l.spec), stint.State{}
	var out []outcome
	for _, at := range offered() {
		out = append(out, outcome{at, limit.Take(&state, model.TraceStart.Add(at), 1)})
	}
	return out
}

// count returns how many passed at once, were delayed, were denied, and the most that passed within
// any second; delayed ones pass after their delay.
func count(out []outcome) (passed, held, denied, most int) {
	var gone []time.Duration
	for _, o := range out {
		switch {
		case !o.Allowed:
			denied++
			continue
		case o.Delay > 0:
			held++
		default:
			passed++
		}
		gone = append(gone, o.at+o.Delay)
	}
	for i := range gone {
		n := 0
		for _, t := range gone[i:] {
			if t < gone[i]+time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return passed, held, denied, most
}

// trafficTable returns the counts of the picture.
func trafficTable() string {
	rows := [][]string{{"5 per second as", "passed at once", "delayed, then passed", "denied", "most within any second"}}
	for _, l := range comparisons {
		passed, held, denied, most := count(l.play())
		rows = append(rows, []string{"`" + l.label + "`", strconv.Itoa(passed), strconv.Itoa(held), strconv.Itoa(denied), strconv.Itoa(most)})
	}
	return markdown(rows)
}

// The geometry of the comparison, in pixels.
const (
	labelWidth  = 230.0
	plotWidth   = 560.0
	rowHeight   = 48.0
	headHeight  = 96.0
	trafficSpan = 5600 * time.Millisecond
)

// along returns the x of a time.
func along(at time.Duration) float64 {
	return labelWidth + plotWidth*at.Seconds()/trafficSpan.Seconds()
}

// trafficPicture draws one row of marks for each limit under the offered traffic.
func trafficPicture() string {
	height := headHeight + rowHeight*float64(len(comparisons)) + 40
	c := newCanvas(930, int(height), "The same traffic under every algorithm, five requests per second")
	for s := range 6 {
		x := along(time.Duration(s) * time.Second)
		c.line("faint thin", x, 60, x, height-30)
		c.text("soft", "middle", x, height-12, fmt.Sprintf("%d s", s))
	}
	legend(c)
	c.text("bold", "start", 16, headHeight-12, "offered")
	for _, at := range offered() {
		c.line("line", along(at), headHeight-30, along(at), headHeight-10)
	}
	c.text("soft", "start", labelWidth+plotWidth+16, headHeight-12, fmt.Sprintf("%d requests", len(offered())))
	for i, l := range comparisons {
		l.draw(c, headHeight+rowHeight*float64(i)+30)
	}
	return c.finish()
}

// legend explains the marks.
func legend(c *canvas) {
	x := labelWidth
	for _, m := range []struct{ class, text string }{{"pass", "passed"}, {"held", "delayed, then passed"}, {"deny", "denied"}} {
		if m.class == "deny" {
			c.line(m.class, x, 28, x, 38)
		} else {
			c.line(m.class, x, 16, x, 36)
		}
		c.text("", "start", x+10, 32, m.text)
		x += 40 + 7*float64(len(m.text))
	}
	c.text("bold", "start", 16, 32, "5 per second")
}

// draw draws a row: requests that pass are above its base line, at the time after their delay;
// denied ones are below it.
func (l comparison) draw(c *canvas, base float64) {
	out := l.play()
	c.text("mono", "start", 16, base-4, l.label)
	c.line("faint thin", labelWidth, base, labelWidth+plotWidth, base)
	for _, o := range out {
		x, gone := along(o.at), along(o.at+o.Delay)
		switch {
		case !o.Allowed:
			c.line("deny", x, base+2, x, base+12)
		case o.Delay > 0:
			c.line("held thin", x, base, gone, base-20)
			c.line("held", gone, base-20, gone, base)
		default:
			c.line("pass", x, base-20, x, base)
		}
	}
	passed, held, denied, _ := count(out)
	c.text("soft", "start", labelWidth+plotWidth+16, base-4, fmt.Sprintf("%d pass, %d not", passed+held, denied))
}
