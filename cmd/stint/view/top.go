package view

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"stint/internal/text"
)

// Options are the settings of Run.
type Options struct {
	// Fetch returns what is known now.
	Fetch func(ctx context.Context) (*Snapshot, error)

	// Out gets the screen. Size returns its width and height, or false if it is no terminal.
	Out  io.Writer
	Size func() (width, height int, terminal bool)

	// Name is the service, for the first line.
	Name string

	// Every is the time between two screens.
	Every time.Duration

	// JSON prints one snapshot as JSON. Once prints one as text.
	JSON, Once bool

	// Color is whether a terminal shows colors.
	Color bool
}

// defaultWidth is the width of an output that is no terminal.
const defaultWidth = 100

// The sequences that begin and end a screen of its own, and go to its first line.
const (
	enter = "\x1b[?1049h\x1b[?25l"
	leave = "\x1b[?25h\x1b[?1049l"
	first = "\x1b[H"
	eol   = "\x1b[K\r\n" // the rest of the line
	below = "\x1b[J"     // the lines below
)

// Run shows snapshots until ctx is done, and then prints the last one and returns the error of ctx. It
// prints a single one if that is asked for, or if the output is no terminal. An error of the first
// snapshot ends it; after that it shows the error and tries again.
func Run(ctx context.Context, o Options) error {
	now, err := o.Fetch(ctx)
	if err != nil {
		return err
	}
	width, _, terminal := o.size()
	if o.JSON {
		return json.NewEncoder(o.Out).Encode(now)
	}
	if o.Once || !terminal {
		return o.print(now, nil, width, 0)
	}
	if _, err := io.WriteString(o.Out, enter); err != nil {
		return err
	}
	shown, before := o.follow(ctx, now)
	if _, err := io.WriteString(o.Out, leave); err != nil {
		return err
	}
	width, height, _ := o.size()
	if err := o.print(shown, before, width, height); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// follow draws snapshots until ctx is done, and returns the last two.
func (o *Options) follow(ctx context.Context, now *Snapshot) (shown, before *Snapshot) {
	ticks := time.NewTicker(o.Every)
	defer ticks.Stop()
	var failed error
	for {
		if o.draw(now, before, failed) != nil {
			return now, before
		}
		select {
		case <-ctx.Done():
			return now, before
		case <-ticks.C:
		}
		next, err := o.Fetch(ctx)
		if failed = err; err == nil {
			before, now = now, next
		}
	}
}

// draw draws a snapshot over the last one.
func (o *Options) draw(now, before *Snapshot, failed error) error {
	width, height, _ := o.size()
	s := screen{width: width, height: max(1, height-1), color: o.Color, name: o.Name}
	lines := s.draw(now, before)
	if failed != nil {
		lines[0] = s.paint(red, s.cut("no answer: "+clean(failed.Error())))
	}
	w := bufio.NewWriter(o.Out)
	_, _ = w.WriteString(first + strings.Join(lines, eol) + eol + below) // Flush returns the error
	return w.Flush()
}

// print prints a snapshot as plain lines; a height of 0 is enough for all of them.
func (o *Options) print(now, before *Snapshot, width, height int) error {
	_, _, terminal := o.Size()
	s := screen{width: width, height: height, color: o.Color && terminal, name: o.Name}
	_, err := io.WriteString(o.Out, strings.Join(s.draw(now, before), "\n")+"\n")
	return err
}

// size returns the size of the output. A terminal that does not know its own, such as a serial line, gets that of an
// old one.
func (o *Options) size() (width, height int, terminal bool) {
	width, height, terminal = o.Size()
	switch {
	case !terminal:
		return defaultWidth, 0, false
	case width <= 0 || height <= 0:
		return 80, 24, true
	}
	return width, height, true
}

// Terminal returns Options.Size of an output.
func Terminal(out io.Writer) func() (width, height int, terminal bool) {
	file, ok := out.(*os.File)
	if !ok {
		return func() (int, int, bool) { return 0, 0, false }
	}
	return func() (int, int, bool) {
		width, height, err := term.GetSize(int(file.Fd()))
		return width, height, err == nil
	}
}

// The narrowest and the widest lines of texts. A terminal that is narrower breaks lines by itself.
const narrowest, widest = 40, defaultWidth

// Width returns how many characters a line of a text for an output may have: on a terminal its columns.
func Width(out io.Writer) int {
	if width, _, terminal := Terminal(out)(); terminal && width > 0 {
		return min(max(width, narrowest), widest)
	}
	return widest
}

// Fit returns an output for lines that may be wider than a terminal: there it breaks them at spaces.
func Fit(out io.Writer) io.Writer {
	if width, _, terminal := Terminal(out)(); terminal && width > 0 {
		return &text.Folder{W: out, Width: max(width, narrowest)}
	}
	return out
}

// Color reports whether the environment wants colors on a terminal, see no-color.org.
func Color(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
