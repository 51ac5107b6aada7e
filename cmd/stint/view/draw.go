package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// screen is what is drawn on, and what of.
type screen struct {
	width, height int // in characters; a height of 0 has no bound
	color         bool
	name          string // of the service
}

// The sequences of colors.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// draw returns the lines of a snapshot. before is an earlier one, for rates; nil: there is none.
func (s *screen) draw(now, before *Snapshot) []string {
	r := since(now, before)
	lines := []string{s.title(now, &r)}
	for _, a := range now.Alarms {
		lines = append(lines, s.paint(red, s.cut("! "+a.Text)))
	}
	lines = append(lines, "")
	nodes := s.nodes(now, &r)
	rules, keys := s.rules(now, &r), s.keys(now)
	if s.height > 0 { // keep a node or two, and share the rest among rules and keys
		room := s.height - len(lines) - 2
		nodes = firstOf(nodes, max(2, min(len(nodes), room/4)))
		room -= len(nodes)
		keep := max(2, room-len(keys), room/2)
		rules = firstOf(rules, keep)
		keys = firstOf(keys, max(0, room-len(rules)))
	}
	lines = append(append(lines, nodes...), "")
	lines = append(lines, rules...)
	if len(keys) > 1 {
		lines = append(append(lines, ""), keys...)
	}
	if s.height > 0 {
		lines = firstOf(lines, s.height)
	}
	return lines
}

func firstOf(lines []string, n int) []string { return lines[:min(n, len(lines))] }

// title returns the first line: the rates of all nodes.
func (s *screen) title(now *Snapshot, r *rates) string {
	decided, denied, known := 0.0, 0.0, false
	for _, n := range now.Summary.Nodes {
		before, ok := r.nodes[n.Name]
		if rate := r.of(n.Decided, before.Decided, ok); rate >= 0 {
			decided, known = decided+rate, true
		}
	}
	for _, one := range now.Summary.Rules {
		before, ok := r.rules[[2]string{one.Domain, one.Name}]
		denied += max(0, r.of(one.Denied, before.Denied, ok))
	}
	words := []string{"stint top", now.Summary.At.Local().Format(time.TimeOnly)}
	if known {
		words = append(words, short(decided)+"/s", short(denied)+" denied/s")
	}
	return s.paint(bold, s.cut(strings.Join(append(words, clean(s.name)), "  ")))
}

// column is a column of a table.
type column struct {
	name   string
	least  int // the least width at which the column is shown
	values []string
}

// nodes returns the table of nodes.
func (s *screen) nodes(now *Snapshot, r *rates) []string {
	c := []column{{name: "NODE"}, {name: "/S"}, {name: "FAILED", least: 50}, {name: "DEGRADED", least: 60}, {name: "P50", least: 70}, {name: "P99", least: 50}, {name: "RULES", least: 80}, {name: "STORE"}}
	nodes := slices.Clone(now.Summary.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(b.StoreError, a.StoreError) }) // those without a store first
	for i := range nodes {
		n := &nodes[i]
		before, known := r.nodes[n.Name]
		state := "ok"
		if n.StoreError != "" {
			state = "away"
			if s.width >= 100 {
				state = cut(clean(n.StoreError), 40)
			}
		}
		add(c, clean(n.Name), rate(r.of(n.Decided, before.Decided, known)), count(n.Failed), count(n.Degraded), duration(n.Median), duration(n.P99), n.Hash[:min(8, len(n.Hash))], state)
	}
	return s.table(c, func(i int) bool { return nodes[i].StoreError != "" })
}

// rules returns the table of rules.
func (s *screen) rules(now *Snapshot, r *rates) []string {
	if len(now.Summary.Rules) == 0 {
		return []string{s.cut("no rules")}
	}
	c := []column{{name: "RULE"}, {name: "ALLOWED/S", least: 60}, {name: "DENIED/S"}, {name: "ALLOWED", least: 80}, {name: "DENIED"}, {name: "OVER", least: 90}, {name: "KEYS", least: 70}}
	sorted := r.sorted(now.Summary.Rules)
	for i := range sorted {
		one := &sorted[i]
		before, known := r.rules[[2]string{one.Domain, one.Name}]
		name := clean(one.Name)
		if one.Shadow {
			name += " (shadow)"
		}
		add(c, name, rate(r.of(one.Allowed, before.Allowed, known)), rate(r.of(one.Denied, before.Denied, known)), count(one.Allowed), count(one.Denied), count(one.Over), count(one.Keys))
	}
	return s.table(c, func(i int) bool {
		before, known := r.rules[[2]string{sorted[i].Domain, sorted[i].Name}]
		return !sorted[i].Shadow && r.of(sorted[i].Denied, before.Denied, known) > 0
	})
}

// keys returns the table of keys; one line if there are none.
func (s *screen) keys(now *Snapshot) []string {
	c := []column{{name: "KEY"}, {name: "RULE", least: 60}, {name: "ALLOWED", least: 50}, {name: "DENIED"}}
	for i := range now.Keys {
		k := &now.Keys[i]
		add(c, k.name(), clean(k.Rule), count(k.Allowed), count(k.Denied))
	}
	return s.table(c, func(int) bool { return false })
}

// name returns the values of the key that are shown, else its ID.
func (k *Key) name() string {
	var shown []string
	for _, e := range k.Entries {
		if e.Value != "" {
			shown = append(shown, clean(e.Key+"="+e.Value))
		}
	}
	if len(shown) == 0 {
		return k.ID
	}
	return strings.Join(shown, " ")
}

func add(columns []column, values ...string) {
	for i := range columns {
		columns[i].values = append(columns[i].values, values[i])
	}
}

// table returns the lines of a table. It leaves out columns for which the screen is too narrow, and
// shortens the first one. alarming rows are red.
func (s *screen) table(columns []column, alarming func(row int) bool) []string {
	shown, used := columns[:0:0], 0
	widths := []int{}
	for i := range columns {
		c := &columns[i]
		if c.least > s.width {
			continue
		}
		width := utf8.RuneCountInString(c.name)
		for _, v := range c.values {
			width = max(width, utf8.RuneCountInString(v))
		}
		if i > 0 {
			used += width + 2
		}
		shown, widths = append(shown, *c), append(widths, width)
	}
	widths[0] = max(8, min(widths[0], s.width-used))
	line := func(value func(c *column) string) string {
		var b strings.Builder
		for i := range shown {
			v := value(&shown[i])
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", widths[0], cut(v, widths[0]))
				continue
			}
			fmt.Fprintf(&b, "  %*s", widths[i], v)
		}
		return s.cut(strings.TrimRight(b.String(), " "))
	}
	lines := []string{s.paint(bold, line(func(c *column) string { return c.name }))}
	for row := range columns[0].values {
		text := line(func(c *column) string { return c.values[row] })
		if alarming(row) {
			text = s.paint(red, text)
		}
		lines = append(lines, text)
	}
	return lines
}

func (s *screen) paint(color, line string) string {
	if !s.color {
		return line
	}
	return color + line + plain
}

func (s *screen) cut(line string) string { return cut(line, s.width) }

// cut shortens a text to a width.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

// clean replaces what a terminal would not show as one character, such as the start of an escape
// sequence in the name of a client.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.Is(unicode.Mn, r) {
			return '?'
		}
		return r
	}, text)
}

// rate returns a rate, "-" if it is not known.
func rate(r float64) string {
	if r < 0 {
		return "-"
	}
	return short(r)
}

// count returns a number of up to five characters.
func count(n uint64) string { return short(float64(n)) }

// short returns a number with a letter for thousands.
func short(n float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		if n < 9999.5 {
			break
		}
		n, unit = n/1000, u
	}
	digits := 0
	if n > 0 && n < 10 && n != float64(int64(n)) {
		digits = 1
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + unit
}

// duration returns a duration, "-" if it is not known.
func duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
