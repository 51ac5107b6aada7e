//go:build linux

package docs_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A block is what a page tells its reader to run.
type block struct {
	line    int    // of the page, from 1
	console bool   // each command stands after a "$ "
	text    string // what to run
	printed string // of a block of sh: what the page says it prints, "" where it says nothing
	status  int    // with which it is to end
	why     string // it does not run; "" where it does
}

var (
	fence   = regexp.MustCompile("(?m)^```([a-z]*)\n((?s:.*?))^```$")
	command = regexp.MustCompile(`(?m)^(?:\$|stint|curl|make|go run|docker|grpcurl) `)
	mark    = regexp.MustCompile(`<!-- (not run|status): (.+) -->\n$`)
	answers = regexp.MustCompile("^\n\nanswers `(.+?)`")
	below   = regexp.MustCompile("^\n\n```(?:json|http)?\n((?s:.*?))```\n")
)

// blocks returns the commands of a page, and what is wrong with how it tells them.
func blocks(page string) (found []block, faults []string) {
	marked := 0
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		language, text := page[at[2]:at[3]], page[at[4]:at[5]]
		line := 1 + strings.Count(page[:at[0]], "\n")
		if language != "sh" && language != "console" {
			if command.MatchString(text) || language == "bash" || language == "shell" {
				faults = append(faults, fmt.Sprintf("line %d: commands stand in blocks of sh or console", line))
			}
			continue
		}
		b := block{line: line, console: language == "console", text: text}
		if m := mark.FindStringSubmatch(page[:at[0]]); m != nil {
			marked++
			if m[1] == "not run" {
				b.why = m[2]
			} else if b.status, _ = strconv.Atoi(m[2]); b.status == 0 {
				faults = append(faults, fmt.Sprintf("line %d: %q is no status", line, m[2]))
			}
		}
		for _, form := range []*regexp.Regexp{answers, below} {
			if m := form.FindStringSubmatch(page[at[1]:]); m != nil && !b.console {
				b.printed = m[1]
			}
		}
		found = append(found, b)
	}
	if n := strings.Count(page, "<!-- not run:") + strings.Count(page, "<!-- status:"); n != marked {
		faults = append(faults, fmt.Sprintf("%d marks, but %d that stand right above a block of commands", n, marked))
	}
	return found, faults
}

// A step is a command of a session and what it prints.
type step struct{ command, printed string }

// steps returns what a block of console shows.
func steps(text string) []step {
	var all []step
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: command})
		} else if len(all) > 0 {
			all[len(all)-1].printed += line
		}
	}
	return all
}
