package app

import (
	"stint/internal/logging"
	"stint/rule"
	"stint/telemetry"
)

// openAlarms makes the alarms of the service.
func (a *App) openAlarms() {
	options := telemetry.AlarmOptions{
		Table:   func() *rule.Table { return a.limiter.Table() },
		Evicted: a.stores.EvictedOver,
		Report:  (&logging.UnknownLog{Log: a.log, Denied: a.config.DeniesUnmatched()}).Report,
		Log:     a.log,
	}
	if a.facts != nil {
		options.Facts = a.facts.Summary
	}
	a.alarms = telemetry.NewAlarms(options)
	a.metrics.Alarms(a.alarms.List)
}
