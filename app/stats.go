package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"stint/internal/system"
	"stint/limiter"
	"stint/server/httpapi"
	"stint/telemetry"
)

// observers passes decisions to several observers.
type observers []limiter.BatchObserver

// Decided implements limiter.Observer.
func (o observers) Decided(v *limiter.Verdict, took time.Duration, err error) {
	for _, one := range o {
		one.Decided(v, took, err)
	}
}

// DecidedBatch implements limiter.BatchObserver.
func (o observers) DecidedBatch(b *limiter.Batch, took time.Duration, err error) {
	for _, one := range o {
		one.DecidedBatch(b, took, err)
	}
}

// observer returns the observer of all decisions.
func (a *App) observer() limiter.Observer {
	s := &a.config.Stats
	all := observers{a.metrics}
	if a.facts != nil {
		all = append(all, a.facts)
	}
	if !s.Envoy && s.StatsD == "" {
		return all
	}
	a.envoy = telemetry.NewEnvoyStats(s.NearLimitRatio, telemetry.EnvoySources{
		Calls: func() uint64 {
			if a.grpcServer == nil {
				return 0
			}
			return a.grpcServer.Calls()
		},
		Errors: func() (service, store, shadowed uint64) {
			n := a.rls.Stats()
			return n.ServiceErrors, n.StoreErrors, n.Shadowed
		},
	})
	if s.Envoy {
		a.metrics.Add(a.envoy)
	}
	return append(all, a.envoy)
}

// metricsServer returns the server of the address for metrics alone.
func (a *App) metricsServer(log *slog.Logger) answerer {
	mux := http.NewServeMux()
	mux.Handle("GET "+a.config.Stats.MetricsPath, a.metrics.Handler())
	return newHTTPServer(mux, httpapi.Limits{}, log)
}

// sendStats sends the statistics of envoyproxy/ratelimit until ctx is done.
func (a *App) sendStats(ctx context.Context) {
	s := &a.config.Stats
	if s.StatsD == "" {
		return
	}
	sender := telemetry.NewStatsD(s.StatsD, s.StatsDTags, a.log)
	a.group.Go(func() {
		system.Every(ctx, s.StatsDInterval, func() { sender.Send(ctx, a.envoy.Counters) })
		sender.Send(context.WithoutCancel(ctx), a.envoy.Counters)
		sender.Close()
	})
}
