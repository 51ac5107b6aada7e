package main

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stint"
)

// markdown returns a table with aligned columns. Its first row is the head.
func markdown(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
	}
	line(rows[0])
	for _, w := range width {
		b.WriteString("|" + strings.Repeat("-", w+2))
	}
	b.WriteString("|\n")
	for _, row := range rows[1:] {
		line(row)
	}
	return b.String()
}

// seconds formats d as a number of seconds.
func seconds(d time.Duration) string {
	if d == stint.Never {
		return "never"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// answer returns the verdict of a take as a word.
func answer(d stint.Decision) string {
	switch {
	case !d.Allowed:
		return "denied"
	case d.Delay > 0:
		return "held " + seconds(d.Delay)
	}
	return "passes"
}
