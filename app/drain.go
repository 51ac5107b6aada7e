package app

import (
	"context"
	"sync"
	"time"

	"stint/app/settings"
	"stint/internal/config"
	"stint/internal/system"
)

// Stop drains and ends the service. It accepts nothing more, waits for the calls in flight for at
// most DrainTimeout, or until ctx is done, and cuts the rest. When it returns the counts are in the
// state file, and nothing of the service runs except connections to a store that does not answer,
// which end by themselves.
func (a *App) Stop(ctx context.Context) {
	a.stop.Do(func() { a.shutdown(ctx) })
}

func (a *App) shutdown(ctx context.Context) {
	began := time.Now()
	a.phases.Lock()
	a.phase.Store(draining)
	a.phases.Unlock()
	a.log.Info("draining", "delay", config.DurationOrAuto(&a.config.DrainDelay, settings.AutoDrainDelay).String(), "timeout", a.config.DrainTimeout.String())
	if a.config.DrainDelay > 0 {
		for _, l := range a.listeners {
			l.server.Ready(false)
		}
		system.Wait(ctx, a.config.DrainDelay)
	}
	a.facts.endStreams()
	a.drain(ctx)
	a.limiter.ReportTries()
	if a.cancel != nil {
		a.cancel()
	}
	a.keys.Close()
	a.group.Wait()
	a.closeWebhooks()
	a.closeFacts()
	a.otlp.Stop(ctx)
	if a.cancel != nil {
		a.stores.Save() // no decision runs any more
	}
	a.stores.Close()
	a.closeBook()
	a.closeRecords()
	a.phase.Store(stopped)
	a.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
}

// drain drains the listeners, first those of traffic, all at once, then those for monitoring.
func (a *App) drain(ctx context.Context) {
	var linger time.Duration
	if a.config.DrainDelay == settings.AutoDrainDelay {
		linger = settings.Linger
	}
	var traffic sync.WaitGroup
	for _, l := range a.listeners {
		if !l.isMonitoring() {
			traffic.Go(func() { a.drainOne(ctx, l, linger) })
		}
	}
	traffic.Wait()
	for _, l := range a.listeners {
		if l.isMonitoring() {
			a.drainOne(ctx, l, 0)
		}
	}
}

// drainOne drains a listener within linger and DrainTimeout.
func (a *App) drainOne(ctx context.Context, l *listener, linger time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, linger+a.config.DrainTimeout)
	defer cancel()
	if l.server.Drain(ctx, linger, idleTimeout) {
		l.log.Warn("calls in flight were cut")
	}
	a.metrics.Listener(l.setting, false)
}
