package app

import (
	"sync/atomic"

	"stint/app/settings"
	"stint/internal/logging"
	"stint/limiter"
	"stint/records/inforce"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/telemetry"
)

// clients is what the service knows of single clients, from its records.
type clients struct {
	*inforce.Records
	overridden *inforce.Overridden

	failed  atomic.Uint64 // look-ups
	misfits atomic.Uint64 // overrides that do not fit their rule
}

// openClients sets how requests are decided by the records, if there are any.
func (a *App) openClients() {
	if a.records == nil {
		return
	}
	c := new(clients)
	failures := logging.FailureLog{
		Log: a.log, Event: "cannot read the records: deciding as if there was no record of the client", Hint: "check the disk of the file of records",
	}
	c.Records = inforce.NewRecords(a.records, inforce.RecordsOptions{
		OnError: func(err error) {
			c.failed.Add(1)
			failures.Report(err)
		},
		OnMisfit: func(r *rule.Rule, err error) {
			c.misfits.Add(1)
			a.log.Warn("an override does not fit its rule: the rule's numbers apply", "domain", r.Domain, "rule", r.Name, "error", err,
				"hint", "correct or delete the override")
		},
	})
	c.overridden = inforce.NewOverridden(c.Records)
	a.clients = c
	a.metrics.Clients(func() telemetry.ClientsStats {
		return telemetry.ClientsStats{Failed: c.failed.Load(), Misfits: c.misfits.Load()}
	})
}

// limiterRecords returns the records for the limiter; nil if there are none.
func (a *App) limiterRecords() limiter.Records {
	if a.clients == nil {
		return nil
	}
	return a.clients
}

// identify returns the function that knows the API keys; nil if there are no records.
func (a *App) identify() func(key string) (subject, plan string, err error) {
	if a.clients == nil {
		return nil
	}
	return a.clients.Identify
}

// LoadRules reads the rules of a configuration, and checks that the service has the records that they
// need. stored are plans of records.
func LoadRules(c *settings.Config, stored ...rulefile.Source) (*rule.Table, error) {
	table, err := c.LoadRules(stored...)
	if err != nil || c.Records != "" {
		return table, err
	}
	if file, line, needs := table.NeedsRecords(); needs {
		return nil, &rule.Errors{Files: table.Files(), List: []*rule.Error{{
			File: file, Line: line, Problem: "api_key: from: records, and this service has no records",
			Hint: "start it with --records FILE, or leave out from: records",
		}}}
	}
	return table, nil
}
