// Package filewatch reports changes of the files of a Caddy app while the app runs.
package filewatch

import (
	"context"
	"log/slog"
	"slices"

	"stint/internal/config"
)

// Watch watches files until Stop. The zero Watch watches none.
type Watch struct {
	stop context.CancelFunc
	done chan struct{} // closed when the watch has ended
}

// Start calls changed once, and again after each change of the files. It logs files that cannot be
// watched to log.
func (w *Watch) Start(paths []string, log *slog.Logger, changed func()) error {
	if len(paths) == 0 {
		return nil
	}
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	watcher, err := config.NewWatcher(paths, log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, make(chan struct{})
	go func() {
		defer close(w.done)
		watcher.Run(ctx, func() []string {
			changed()
			return nil
		})
	}()
	return nil
}

// Stop ends the watch and waits until changed has returned.
func (w *Watch) Stop() {
	if w.stop != nil {
		w.stop()
		<-w.done
	}
}
