package config

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long the files must be quiet before they are read: editors and
	// volumes change them in several steps.
	settle = 100 * time.Millisecond

	// settleMost is how long a change waits when the files are never quiet.
	settleMost = 2 * time.Second

	// lookAgain is when it is looked again where no file descriptor was left.
	lookAgain = time.Second
)

// Watcher tells when files or folders may have changed: by being written or
// renamed over, by the swap of a symbolic link anywhere on the way to them, by
// going and coming back. Of a folder, *.yaml and *.yml in it matter; of a tree, every
// name in the folder and in those below it. It tells too
// often rather than too seldom; whoever is told looks what has changed. A Watcher
// belongs to one goroutine, that of Run.
type Watcher struct {
	paths    []string
	find     finder
	short    bool     // places may not be all
	more     []string // named by the files at paths, as changed last said
	notify   *fsnotify.Watcher
	places   places
	watching map[string]bool
	log      *slog.Logger
}

// NewWatcher begins to watch paths. What cannot be watched is logged to log. Run must be
// called, and ends it.
func NewWatcher(paths []string, log *slog.Logger) (*Watcher, error) {
	return watch(paths, log, watchPlaces)
}

// NewTreeWatcher is NewWatcher for trees of files, whatever their names.
func NewTreeWatcher(paths []string, log *slog.Logger) (*Watcher, error) {
	return watch(paths, log, watchTrees)
}

func watch(paths []string, log *slog.Logger, find finder) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching files: %w", err)
	}
	w := &Watcher{paths: paths, find: find, notify: notify, watching: make(map[string]bool), log: log}
	w.look()
	return w, nil
}

// look finds out anew where changes would show, because a change may have moved
// that, and watches there.
func (w *Watcher) look() {
	found, short := w.find(slices.Concat(w.paths, w.more))
	if w.short = short != nil; w.short {
		w.log.Warn("cannot read all folders of the files to watch; will try again soon", "error", short)
		for dir, names := range w.places {
			for _, name := range names {
				found.add(dir, name)
			}
		}
	}
	w.places = found
	for dir := range w.places {
		// Adding a folder again is free; one that was removed and made again needs it.
		if err := w.notify.Add(dir); err != nil {
			w.log.Warn("cannot watch for changes of the rules; send SIGHUP after a change", "folder", dir, "error", err)
			continue
		}
		w.watching[dir] = true
	}
	for dir := range w.watching {
		if _, needed := w.places[dir]; !needed {
			// The folder may be gone already, and its watch with it: nothing to do then.
			_ = w.notify.Remove(dir)
			delete(w.watching, dir)
		}
	}
}

// Run calls changed once at its start, because files may have changed before they
// were watched, and then after each group of changes until ctx is done. What
// changed returns are files to watch as well, those that the first ones name.
func (w *Watcher) Run(ctx context.Context, changed func() (more []string)) {
	defer w.notify.Close() //nolint:errcheck // nothing was written
	w.tell(changed)
	w.loop(ctx, w.notify.Events, w.notify.Errors, func() {
		w.look()
		w.tell(changed)
	})
}

// tell calls changed, and again when it names other files than before: they may
// have changed before they were watched.
func (w *Watcher) tell(changed func() (more []string)) {
	for {
		more := changed()
		if slices.Equal(more, w.more) {
			return
		}
		w.more = more
		w.look()
	}
}

// loop calls do once the events that matter have paused for settle, or have gone on
// for settleMost, until ctx is done.
func (w *Watcher) loop(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, do func()) {
	var quiet, late <-chan time.Time
	touch := func() {
		quiet = time.After(settle)
		if late == nil {
			late = time.After(settleMost)
		}
	}
	for {
		if w.short && late == nil {
			late = time.After(lookAgain)
		}
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.places.matter(e.Name) {
				touch()
			}
			continue
		case err := <-errs:
			w.log.Warn("watching the rules", "error", err)
			touch() // events may have been lost: look
			continue
		case <-quiet:
		case <-late:
		}
		quiet, late = nil, nil
		do()
	}
}
