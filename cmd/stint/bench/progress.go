package bench

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"stint/internal/text"
	"stint/loadtest"
)

// progressEvery is the time between two drawings of the bar.
const progressEvery = 250 * time.Millisecond

// besideText is how many columns the bar needs at least beside its text.
const besideText = len(" 100% ||  [10m0s:10m0s]")

// progress is a bar on a terminal.
type progress struct {
	bar      *progressbar.ProgressBar
	terminal int // its file descriptor
}

// newProgress lets a plan draw its progress; nil unless w is a terminal.
func newProgress(w io.Writer, plan *loadtest.Plan) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &progress{terminal: int(f.Fd()), bar: progressbar.NewOptions64(plan.Duration.Milliseconds(),
		progressbar.OptionSetWriter(w), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())}
	plan.Progress, plan.ProgressEvery = p.show, progressEvery
	return p
}

// show draws the state of the run, in one line: a longer one would scroll the terminal each time.
func (p *progress) show(now loadtest.Progress) {
	columns, _, err := term.GetSize(p.terminal)
	if err != nil || columns <= 0 {
		columns = 80
	}
	if columns <= besideText {
		return
	}
	p.bar.Describe(describe(now, columns-besideText-1))
	// An error of the terminal does not matter.
	_ = p.bar.Set64(min(now.Took.Milliseconds(), p.bar.GetMax64()-1))
}

// describe returns as many of the numbers of a run as fit into some columns.
func describe(now loadtest.Progress, columns int) string {
	allowed := text.Thousands(now.Allowed) + " allowed"
	both := allowed + ", " + text.Thousands(now.Denied) + " denied"
	for _, t := range []string{both + ", " + text.Plural(now.Errors, "error", "errors"), both, allowed} {
		if len(t) <= columns {
			return t
		}
	}
	return ""
}

// finish removes the bar.
func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish() // see show
	}
}
