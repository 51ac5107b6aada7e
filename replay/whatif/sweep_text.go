package whatif

import (
	"fmt"
	"io"

	"stint/internal/text"
)

// Sentence answers which limit denies one key in a hundred.
func (c *Curve) Sentence(noun string) string {
	for _, a := range c.Answers {
		if a.Share == 0.01 {
			return fmt.Sprintf("%s: a limit of %s per %s (%s) would deny at most 1 %% of the %s: %s of %s, and %s of their %s.", c.Rule,
				text.Thousands(a.Requests), c.Per, c.Algorithm, noun, text.Thousands(a.DeniedKeys), text.Thousands(c.Keys),
				text.Thousands(a.Denied), text.Plural(c.Takes, "request", "requests"))
		}
	}
	return fmt.Sprintf("%s: no limit per %s (%s) denies 1 %% of the %s or less.", c.Rule, c.Per, c.Algorithm, noun)
}

// WriteText writes the curve for a terminal, in lines of at most width characters. noun is the plural
// of what the limit counts, such as clients.
func (c *Curve) WriteText(w io.Writer, width int, noun string) {
	fmt.Fprintln(w)
	for _, line := range text.Wrap(c.Sentence(noun), width) {
		fmt.Fprintln(w, line)
	}
	t := text.Table{Head: []string{"Limit per " + c.Per, "Denied " + noun, "", "Denied requests", "", ""}}
	for _, p := range c.Points {
		note := ""
		if p.Requests == c.Requests {
			note = "now"
		}
		t.Add(text.Thousands(p.Requests), p.DeniedKeys, text.Percent(p.DeniedKeys, c.Keys), p.Denied, text.Percent(p.Denied, c.Takes), note)
	}
	t.Write(w, width)
}
