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
	// settle is how long the files must not change before they are read, because editors and
	// volumes change them in several steps.
	settle = 100 * time.Millisecond

	// settleMost is the longest delay of a change if the files never stop changing.
	settleMost = 2 * time.Second

	// lookAgain is the delay of a new attempt after all file descriptors were in use.
	lookAgain = time.Second
)

// Watcher reports when files or folders may have changed: when they are written or replaced, when a
// symbolic link on their path is swapped, and when they disappear or appear. In a folder only
// *.yaml and *.yml count; in a tree every name in the folder and its subfolders. It may report too
// often, but never misses a change; the callback must find out what has changed. Only the goroutine
// of Run may use a Watcher.
type Watcher struct {
	paths    []string
	find     finder
	short    bool     // some places could not be found
	more     []string // files that the files at paths refer to, from the last call of changed
	notify   *fsnotify.Watcher
	places   places
	watching map[string]bool
	log      *slog.Logger
}

// NewWatcher starts to watch paths. It logs paths that cannot be watched to log. The caller must
// call Run, which ends the watch.
func NewWatcher(paths []string, log *slog.Logger) (*Watcher, error) {
	return watch(paths, log, watchPlaces)
}

// NewTreeWatcher is NewWatcher for trees of files of any names.
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

// look finds the folders to watch again, because a change may have moved them, and watches them.
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
		// Adding a folder again does nothing, unless it was removed and created again.
		if err := w.notify.Add(dir); err != nil {
			w.log.Warn("cannot watch for changes of the rules; send SIGHUP after a change", "folder", dir, "error", err)
			continue
		}
		w.watching[dir] = true
	}
	for dir := range w.watching {
		if _, needed := w.places[dir]; !needed {
			// If the folder is gone, so is its watch, and Remove fails without harm.
			_ = w.notify.Remove(dir)
			delete(w.watching, dir)
		}
	}
}

// Run calls changed once at its start, because files may have changed before the watch, and then
// after each group of changes until ctx is done. changed returns more files to watch, which the
// first ones refer to.
func (w *Watcher) Run(ctx context.Context, changed func() (more []string)) {
	defer w.notify.Close() //nolint:errcheck // nothing was written to it
	w.report(changed)
	w.loop(ctx, w.notify.Events, w.notify.Errors, func() {
		w.look()
		w.report(changed)
	})
}

// report calls changed, and again while it returns other files than before: these may have changed
// before the watch.
func (w *Watcher) report(changed func() (more []string)) {
	for {
		more := changed()
		if slices.Equal(more, w.more) {
			return
		}
		w.more = more
		w.look()
	}
}

// loop calls do when there was no event for settle, or events for settleMost, until ctx is done.
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
			w.log.Warn("an error while watching for changes; will read the files again", "error", err)
			touch() // events may have been lost, so treat it as a change
			continue
		case <-quiet:
		case <-late:
		}
		quiet, late = nil, nil
		do()
	}
}
