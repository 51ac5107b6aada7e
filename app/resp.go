package app

import (
	"encoding/json"
	"log/slog"
	"time"

	"stint/records"
	"stint/server/access"
	"stint/server/recordapi"
	"stint/server/resp"
)

// respServer returns the server of the address for the Redis protocol.
func (a *App) respServer(log *slog.Logger) answerer {
	options := resp.Options{
		Token: a.config.RESPToken, Lists: access.Lists(a.config.AdminToken, a.accessFile()),
		Together: a.stores.OnNetwork(), Version: Version(), Log: log,
	}
	if a.records != nil {
		options.OnReset = a.noteReset
	}
	return resp.New(a.limiter, options)
}

// noteReset writes a reset by STINT.RESET to the audit trail.
func (a *App) noteReset(r resp.Reset) error {
	e := recordapi.Reset{Rule: r.Rule, Key: r.Key}.Event()
	e.By = records.Actor{Name: r.Caller.Name}
	if r.Peer.IsValid() {
		e.By.From = r.Peer.String()
	}
	var err error
	if e.Before, err = json.Marshal(r.Before); err != nil {
		return err
	}
	return a.records.Note(r.Context, e, time.Now())
}
