package app

import (
	"errors"

	"stint/records"
)

// openRecords opens the records, if they are configured.
func (a *App) openRecords() error {
	if a.config.Records == "" {
		return nil
	}
	file, err := records.Open(a.config.Records, records.Options{TrustedProxies: a.config.Proxies()})
	if fault, ok := errors.AsType[*records.Error](err); ok {
		return a.config.Fault("records", fault.Error(), fault.Hint)
	}
	a.records = file
	return err
}

// closeRecords closes the records.
func (a *App) closeRecords() {
	if a.records == nil {
		return
	}
	if err := a.records.Close(); err != nil {
		a.log.Error("records not closed", "error", err)
	}
}
