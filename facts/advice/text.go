package advice

import (
	"fmt"
	"io"
	"strings"

	"stint/internal/text"
)

// None says why there is no advice.
const None = "No advice: the rules fit their traffic, or there are too few facts. Advice needs 50 keys, 1,000 requests and an hour of a rule; that a limit is too loose, 7 days."

// Write writes advice for a terminal, in lines of at most width characters, except lines of YAML.
func Write(w io.Writer, all []Advice, width int) {
	if len(all) == 0 {
		text.Item(w, "", None, width)
	}
	for i := range all {
		a := &all[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		text.Item(w, "", a.Text, width)
		block(w, "Change it to:", a.YAML)
		block(w, "Or try it beside the limit in force, where it denies nobody:", a.Candidate)
		block(w, "See what the change does to an access log:", a.Command)
	}
}

// block writes lines below a title, nothing if there are none.
func block(w io.Writer, title, lines string) {
	if lines == "" {
		return
	}
	fmt.Fprintf(w, "\n  %s\n", title)
	for line := range strings.Lines(lines) {
		fmt.Fprintf(w, "    %s\n", strings.TrimSuffix(line, "\n"))
	}
}
