package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/internal/text"
	"stint/replay/accesslog"
)

// formatCounter counts lines by format.
type formatCounter [accesslog.ALB + 1]int64

// counts returns the formats that occurred, most lines first.
func (c *formatCounter) counts() []FormatCount {
	var met []FormatCount
	for _, f := range accesslog.Formats {
		if c[f] > 0 {
			met = append(met, FormatCount{f.ID(), f.String(), c[f]})
		}
	}
	slices.SortStableFunc(met, func(a, b FormatCount) int { return cmp.Compare(b.Lines, a.Lines) })
	return met
}

// FormatText returns the names of the formats that occurred, with their line counts if there are
// several.
func (r *Report) FormatText() string {
	names := make([]string, len(r.Formats))
	for i, f := range r.Formats {
		names[i] = f.Name
		if len(r.Formats) > 1 {
			names[i] += ": " + text.Thousands(f.Lines)
		}
	}
	return strings.Join(names, ", ")
}

// knownFormats returns the names of all formats.
func knownFormats() string {
	names := make([]string, len(accesslog.Formats))
	for i, f := range accesslog.Formats {
		names[i] = f.String()
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// UnreadableError is returned if too few lines could be parsed for a reliable report.
type UnreadableError struct{ Problem, Hint string }

// Error returns the problem without the hint.
func (e *UnreadableError) Error() string { return e.Problem }

// Readable returns an [*UnreadableError] if no line could be parsed, or fewer than half of them,
// and nil otherwise.
func (r *Report) Readable() error {
	hint := "known formats are " + knownFormats() + "; the report shows the first lines that are none"
	switch {
	case r.Lines == 0:
		return &UnreadableError{"the log has no lines", "check that the file is the one that the server writes"}
	case r.Nameless*2 > r.Lines:
		hint = "let Envoy set X-Forwarded-For (use_remote_address: true), or log %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% in its place"
	case r.Parsed*2 >= r.Lines:
		return nil
	}
	if r.Parsed == 0 {
		return &UnreadableError{fmt.Sprintf("none of %s could be parsed", text.Plural(r.Lines, "line", "lines")), hint}
	}
	return &UnreadableError{fmt.Sprintf("only %s of %s could be parsed, fewer than half", text.Thousands(r.Parsed), text.Plural(r.Lines, "line", "lines")), hint}
}
