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

// newProgress returns the progress of a run; nil unless w is a terminal.
func newProgress(w io.Writer, of time.Duration) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{terminal: int(f.Fd()), bar: progressbar.NewOptions64(of.Milliseconds(),
		progressbar.OptionSetWriter(w), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())}
}

// follow lets a plan draw its progress.
func (p *progress) follow(plan *loadtest.Plan) {
	if p != nil {
		plan.Progress, plan.ProgressEvery = p.show, progressEvery
	}
}

// tick draws the time that has passed, until the function that it returns is called, which removes the bar.
func (p *progress) tick() (finish func()) {
	if p == nil {
		return func() {}
	}
	began, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(progressEvery)
		defer ticks.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticks.C:
				p.draw(time.Since(began), func(int) string { return "measuring" })
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		p.finish()
	}
}

// show draws the state of a run of a plan.
func (p *progress) show(now loadtest.Progress) {
	p.draw(now.Took, func(columns int) string { return describe(now, columns) })
}

// draw draws the time that has passed and a text, in one line: a longer one would scroll the terminal each
// time.
func (p *progress) draw(took time.Duration, text func(columns int) string) {
	columns, _, err := term.GetSize(p.terminal)
	if err != nil || columns <= 0 {
		columns = 80
	}
	if columns <= besideText {
		return
	}
	p.bar.Describe(text(columns - besideText - 1))
	// An error of the terminal does not matter.
	_ = p.bar.Set64(min(took.Milliseconds(), p.bar.GetMax64()-1))
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
