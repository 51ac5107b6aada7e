package bench

import (
	"fmt"
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

// progress is a bar on a terminal.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress lets a plan draw its progress; nil unless w is a terminal.
func newProgress(w io.Writer, plan *loadtest.Plan) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &progress{progressbar.NewOptions64(plan.Duration.Milliseconds(),
		progressbar.OptionSetWriter(w), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())}
	plan.Progress, plan.ProgressEvery = p.show, progressEvery
	return p
}

// show draws the state of the run.
func (p *progress) show(now loadtest.Progress) {
	p.bar.Describe(fmt.Sprintf("%s allowed, %s denied, %s", text.Thousands(now.Allowed), text.Thousands(now.Denied), text.Plural(now.Errors, "error", "errors")))
	// An error of the terminal does not matter.
	_ = p.bar.Set64(min(now.Took.Milliseconds(), p.bar.GetMax64()-1))
}

// finish removes the bar.
func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish() // see show
	}
}
