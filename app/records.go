package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"stint/app/stores"
	"stint/internal/jsonbody"
	"stint/internal/system"
	"stint/records"
	"stint/records/inforce"
	"stint/rule"
	"stint/server/recordapi"
	"stint/server/ruleapi"
	"stint/store/redis/recordlog"
	"stint/telemetry"
)

// logHeadEvery is the time between two messages with the head of the audit trail.
const logHeadEvery = time.Hour

// openRecords opens the records, if they are configured. It does not connect to Redis.
func (a *App) openRecords() error {
	c := &a.config
	if c.Records == "" {
		return nil
	}
	path, setting := c.Records, "records"
	options := records.Options{TrustedProxies: c.Proxies(), AuditFor: c.AuditFor, Plans: a.preparePlans}
	if c.SharesRecords() {
		log, err := recordlog.Open(c.Records, c.Namespace)
		if err != nil {
			return c.RecordsError(err)
		}
		a.recordLog = log
		path, setting = c.RecordsCopyPath(a.stores.State())
		options.Log, options.Node, options.LogHint, options.Logger = log, nodeName(), stores.Hint, a.log
	}
	var rules *inforce.Rules
	if len(c.Catalog) == 0 && c.CatalogDB == "" {
		rules = inforce.NewRules(c.CatalogOptions(), a.log)
		options.Rules = rules
	}
	file, err := records.Open(path, options)
	if fault, ok := errors.AsType[*records.Error](err); ok {
		return c.Fault(setting, fault.Error(), fault.Hint)
	}
	if err != nil {
		return err
	}
	a.records = file
	if rules != nil {
		rules.Use(file)
		a.book, a.rulesInRecords = rules.Book(), true
	}
	return nil
}

// recordOptions returns the options of the API of records.
func (a *App) recordOptions() recordapi.Options {
	override := func(name string, n rule.Numbers) (bool, error) { return inforce.CheckOverride(a.limiter, name, n) }
	return recordapi.Options{Log: a.log, Override: override, Grant: a.checkGrant, Plan: a.knowsPlan, PeriodEnd: a.periodEnd, SupportFor: a.config.SupportFor}
}

// checkGrant implements [recordapi.Options.Grant].
func (a *App) checkGrant(subject, limit, plan string) (warning string, err error) {
	if !a.stores.KeepsUsage() {
		return "", errors.New("this store keeps no grants")
	}
	return a.limiter.Table().CheckGrant(subject, limit, plan)
}

// ruleOptions returns the options of /v1/rules.
func (a *App) ruleOptions() ruleapi.Options {
	o := ruleapi.Options{Log: a.log}
	switch {
	case a.rulesInRecords:
		o.Context = func(r *http.Request) context.Context {
			return inforce.WithActor(r.Context(), recordapi.By(r), r.Header.Get(recordapi.WhyHeader))
		}
		o.Fault = recordapi.FaultOf
	case a.records != nil:
		o.Changed = func(r *http.Request, action, id string, before, after any) *jsonbody.Fault {
			return recordapi.NoteRule(a.records, a.log, r, recordapi.RuleChange{Action: action, ID: id, Before: before, After: after})
		}
	}
	return o
}

// nodeName returns the name of this node for others.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return name
}

// followRecords keeps the records up to date with Redis, and logs the head of the audit trail, until
// ctx is done.
func (a *App) followRecords(ctx context.Context) {
	if a.records == nil {
		return
	}
	a.group.Go(func() { a.records.Follow(ctx) })
	if a.lacksRecords() {
		a.log.Warn("not ready: this node has no copy of the records yet, and reads them from Redis", "hint", "if this lasts, check that it reaches the Redis of --records")
		a.group.Go(func() {
			select {
			case <-a.records.Known():
				a.readyChanged()
			case <-ctx.Done():
			}
		})
	}
	a.logRecords()
	a.group.Go(func() { system.Every(ctx, logHeadEvery, a.logRecords) })
}

// lacksRecords reports whether this is a new node that has not read the shared records yet. It would
// let banned clients pass, and refuse API keys.
func (a *App) lacksRecords() bool {
	if a.records == nil {
		return false
	}
	select {
	case <-a.records.Known():
		return false
	default:
		return true
	}
}

// logRecords logs the head of the audit trail, so that operators see later whether its end was cut off.
func (a *App) logRecords() {
	number, hash := a.records.Head()
	s := a.records.Status(time.Now())
	a.log.Info("head of the audit trail", "entry", number, "hash", hash, "revision", s.Revision, "age", s.Age.Round(time.Second).String())
}

// recordsStats returns the numbers of the records for metrics.
func (a *App) recordsStats() telemetry.RecordsStats {
	s := a.records.Status(time.Now())
	number, hash := a.records.Head()
	return telemetry.RecordsStats{Revision: s.Revision, Age: s.Age.Seconds(), Available: s.Error == "", Audited: number, Head: hash}
}

// closeRecords closes the records.
func (a *App) closeRecords() {
	if a.recordLog != nil {
		a.recordLog.Close()
	}
	if a.records == nil {
		return
	}
	if err := a.records.Close(); err != nil {
		a.log.Error("records not closed", "error", err)
	}
}
