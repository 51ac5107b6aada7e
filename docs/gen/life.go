package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// life is a sequence of takes of one key under one limit.
type life struct {
	name  string // name of the table and the picture
	spec  stint.Spec
	span  time.Duration // length of the picture
	steps []step
}

// step is one take and what it demonstrates.
type step struct {
	at   time.Duration
	cost uint64
	why  string
}

// lives are the sequences of docs/algorithms.md: five per minute under each algorithm.
var lives = []life{
	{"token_bucket", perMinute(stint.Spec{Algorithm: stint.TokenBucket}), 150 * time.Second, []step{
		{0, 1, "an unused bucket is full; a token is refilled in 12 s"},
		{0, 4, "the whole burst can be used at once"},
		{0, 1, "empty: the next token is 12 s away"},
		{11999 * time.Millisecond, 1, "one millisecond too early"},
		{12 * time.Second, 1, "after exactly the retry time it passes"},
		{30 * time.Second, 0, "a peek: 1.5 tokens, so one whole token"},
		{30 * time.Second, 3, "only one is left; a denied take costs nothing"},
		{48 * time.Second, 3, "the wait was exact"},
		{90 * time.Second, 6, "more than the size of the bucket: never"},
		{108 * time.Second, 0, "full again: the key can be dropped"},
	}},
	{"token_bucket_step", perMinute(stint.Spec{Algorithm: stint.TokenBucket, Burst: 8, Step: true}), 200 * time.Second, []step{
		{50 * time.Second, 8, "all 8 are used before the minute ends"},
		{55 * time.Second, 1, "no tokens in between; the next step is at 60 s"},
		{60 * time.Second, 5, "five at once: 13 have passed within 10 s"},
		{61 * time.Second, 1, "and nothing until the next step"},
		{120 * time.Second, 0, "five of eight"},
		{180 * time.Second, 0, "full: a step never fills it beyond 8"},
	}},
	{"leaky_bucket", perMinute(stint.Spec{Algorithm: stint.LeakyBucket, Burst: 2}), 80 * time.Second, []step{
		{0, 1, "the queue is empty: no delay"},
		{0, 1, "waits for the one before it"},
		{0, 1, "the second and last place to wait"},
		{0, 1, "no room: a place becomes free in 12 s"},
		{6 * time.Second, 1, "still none"},
		{12 * time.Second, 1, "takes the free place, leaves at 36 s"},
		{40 * time.Second, 1, "the last left 4 s ago: the next is due 12 s after it"},
		{75 * time.Second, 1, "the queue is empty again"},
	}},
	{"fixed_window", perMinute(stint.Spec{Algorithm: stint.FixedWindow}), 150 * time.Second, []step{
		{50 * time.Second, 5, "all five late in the first minute"},
		{55 * time.Second, 1, "the window ends in 5 s"},
		{60 * time.Second, 5, "a new window: ten have passed within 10 s"},
		{61 * time.Second, 1, "59 s to go"},
		{130 * time.Second, 2, "unused units of a window are not carried over"},
		{130 * time.Second, 6, "more than the limit of a window: never"},
	}},
	{"sliding_log", perMinute(stint.Spec{Algorithm: stint.SlidingLog}), 150 * time.Second, []step{
		{0, 2, "two entries of one time are kept as one"},
		{20 * time.Second, 2, "four within the last minute"},
		{40 * time.Second, 1, "five within the last minute"},
		{50 * time.Second, 1, "the oldest two expire at 60 s"},
		{60 * time.Second, 2, "an entry exactly one minute old no longer counts"},
		{61 * time.Second, 3, "three must expire first: two at 80 s, one at 100 s"},
		{100 * time.Second, 3, "the wait was exact"},
	}},
	{"sliding_window", perMinute(stint.Spec{Algorithm: stint.SlidingWindow}), 180 * time.Second, []step{
		{30 * time.Second, 4, "counted in the first minute"},
		{60 * time.Second, 0, "the previous minute still counts in full: 4 * 60/60"},
		{70 * time.Second, 1, "floor(4 * 50/60) = 3, and this one: 4"},
		{70 * time.Second, 2, "3 + 1 + 2 is 6; just after 75 s the weighted part falls below 3"},
		{80 * time.Second, 2, "floor(4 * 40/60) = 2: 2 + 1 + 2 = 5"},
		{125 * time.Second, 0, "now the second minute is weighted: floor(3 * 55/60) = 2"},
	}},
	{"sliding_window_full", perMinute(stint.Spec{Algorithm: stint.SlidingWindow, StartUsedUp: true}), 240 * time.Second, []step{
		{15 * time.Second, 0, "no take yet, but floor(5 * 45/60) = 3 count as taken"},
		{15 * time.Second, 3, "only two could pass; a denied take is not stored"},
		{20 * time.Second, 2, "floor(5 * 40/60) = 3, and these two: from now on the previous minute has 5"},
		{48 * time.Second, 2, "floor(5 * 12/60) = 1: 1 + 2 + 2 = 5"},
		{70 * time.Second, 1, "that minute has expired: floor(4 * 50/60) = 3, and this one"},
	}},
}

func perMinute(spec stint.Spec) stint.Spec {
	spec.Requests, spec.Per = 5, time.Minute
	return spec
}

// limit returns the limit of the sequence.
func (l life) limit() *stint.Limit { return stint.MustLimit(l.spec) }

// table returns the sequence with its numbers.
func (l life) table() string {
	limit, state := l.limit(), stint.State{}
	head := []string{"time", "cost", "answer", "remaining", "retry after", "reset after", "meaning"}
	rows := [][]string{head}
	for _, s := range l.steps {
		d := limit.Take(&state, model.TraceStart.Add(s.at), s.cost)
		retry := ""
		if !d.Allowed {
			retry = seconds(d.RetryAfter)
		}
		word := answer(d)
		if s.cost == 0 {
			word = "peek"
		}
		rows = append(rows, []string{
			seconds(s.at), strconv.FormatUint(s.cost, 10), word, strconv.FormatInt(d.Remaining, 10), retry, seconds(d.ResetAfter), s.why,
		})
	}
	return markdown(rows)
}

// The geometry of the picture, in pixels.
const (
	lifeWidth, lifeHeight = 900.0, 250.0
	lifeLeft, lifeRight   = 70.0, 870.0
	lifeTop, lifeBottom   = 40.0, 170.0
	lifeMarks             = 205.0           // base line of the takes
	lifeBefore            = 5 * time.Second // time that is shown before zero
)

// picture draws the remaining units over time, with the takes below.
func (l life) picture() string {
	c := newCanvas(lifeWidth, lifeHeight, "One bucket under "+l.name+": what remains over time")
	most := l.limit().Capacity()
	x := func(at time.Duration) float64 {
		return lifeLeft + (lifeRight-lifeLeft)*(at+lifeBefore).Seconds()/(l.span+lifeBefore).Seconds()
	}
	y := func(units int64) float64 {
		return lifeBottom - (lifeBottom-lifeTop)*float64(units)/float64(most)
	}
	for at := time.Duration(0); at <= l.span; at += 10 * time.Second {
		c.line("faint thin", x(at), lifeTop, x(at), lifeBottom)
		if at%(30*time.Second) == 0 {
			c.text("soft", "middle", x(at), lifeHeight-8, seconds(at))
		}
	}
	for units := range most + 1 {
		c.text("soft", "end", lifeLeft-10, y(units)+4, strconv.FormatInt(units, 10))
	}
	c.text("bold", "start", 16, 24, "remaining")
	c.text("mono soft", "end", lifeRight, 24, describe(l.spec))
	l.drawRemaining(c, x, y)
	c.text("bold", "start", 16, lifeMarks+4, "takes")
	c.line("faint thin", lifeLeft, lifeMarks, lifeRight, lifeMarks)
	l.drawTakes(c, x)
	return c.finish()
}

// drawRemaining draws the remaining units as steps, with a peek every twentieth of a second.
func (l life) drawRemaining(c *canvas, x func(time.Duration) float64, y func(int64) float64) {
	limit, state := l.limit(), stint.State{}
	last := limit.Capacity()
	next := 0
	var d strings.Builder
	fmt.Fprintf(&d, "M%s %s", num(lifeLeft), num(y(last)))
	for at := time.Duration(0); at <= l.span; at += 50 * time.Millisecond {
		left := limit.Test(&state, model.TraceStart.Add(at), 0).Remaining
		for ; next < len(l.steps) && l.steps[next].at <= at; next++ {
			left = limit.Take(&state, model.TraceStart.Add(l.steps[next].at), l.steps[next].cost).Remaining
		}
		if left != last {
			fmt.Fprintf(&d, "H%sV%s", num(x(at)), num(y(left)))
			last = left
		}
	}
	stairs := d.String() + "H" + num(x(l.span))
	c.path("area", stairs+"V"+num(y(0))+"H"+num(lifeLeft)+"Z")
	c.path("line", stairs)
}

// drawTakes marks each take with its cost: above the line if it passes (at the time after its
// delay), below if it is denied. It leaves out peeks.
func (l life) drawTakes(c *canvas, x func(time.Duration) float64) {
	limit, state := l.limit(), stint.State{}
	above, below := labels{}, labels{}
	for _, s := range l.steps {
		d := limit.Take(&state, model.TraceStart.Add(s.at), s.cost)
		here, gone := x(s.at), x(s.at+d.Delay)
		switch {
		case s.cost == 0:
		case !d.Allowed:
			c.line("deny", here, lifeMarks+2, here, lifeMarks+12)
			below.add(here, s.cost)
		case d.Delay > 0:
			c.line("held thin", here, lifeMarks, gone, lifeMarks-18)
			c.line("held", gone, lifeMarks-18, gone, lifeMarks)
			above.add(gone, s.cost)
		default:
			c.line("pass", here, lifeMarks-18, here, lifeMarks)
			above.add(here, s.cost)
		}
	}
	above.write(c, lifeMarks-6)
	below.write(c, lifeMarks+14)
}

// labels are the costs of takes by position; takes of one position share a label.
type labels []label

type label struct {
	x    float64
	text string
}

func (l *labels) add(x float64, cost uint64) {
	text := strconv.FormatUint(cost, 10)
	if n := len(*l); n > 0 && x-(*l)[n-1].x < 8 {
		(*l)[n-1].text += ", " + text
		return
	}
	*l = append(*l, label{x, text})
}

func (l labels) write(c *canvas, y float64) {
	for _, one := range l {
		c.text("soft", "start", one.x+4, y, one.text)
	}
}

// describe returns the limit as in a rule file.
func describe(s stint.Spec) string {
	text := fmt.Sprintf("algorithm: %v, requests: %d, per: 1m", s.Algorithm, s.Requests)
	if s.Burst > 0 {
		text += fmt.Sprintf(", burst: %d", s.Burst)
	}
	if s.Step {
		text += ", refill: step"
	}
	return text
}
