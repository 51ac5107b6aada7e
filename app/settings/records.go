package settings

import (
	"errors"
	"path/filepath"
	"time"

	"stint/internal/config"
	"stint/internal/text"
	"stint/store/redis/connect"
	"stint/store/redis/recordlog"
)

// recordsCopy is the name of the copy of records beside the state file.
const recordsCopy = "records.db"

// SharesRecords reports whether nodes share the records.
func (c *Config) SharesRecords() bool { return connect.IsURL(c.Records) }

// RecordsCopyPath returns the file of this node's copy of shared records, and the setting that names
// it. state is the path of the state file, with links resolved.
func (c *Config) RecordsCopyPath(state string) (path, setting string) {
	if c.RecordsCopy != "" {
		return c.RecordsCopy, "records-copy"
	}
	return filepath.Join(filepath.Dir(state), recordsCopy), "state"
}

// RecordsError returns err as a fault of the setting records, if it is one.
func (c *Config) RecordsError(err error) error {
	if problem, ok := errors.AsType[*connect.URLError](err); ok {
		return c.Fault("records", problem.Problem, problem.Hint)
	}
	return err
}

// leastAudit is the shortest time that entries of the audit trail are kept.
const leastAudit = 24 * time.Hour

// checkRecords checks the settings of records together.
func (c *Config) checkRecords() error {
	switch {
	case c.SharesRecords() && c.RecordsCopy == "" && c.State == "":
		return c.Fault("records", "records in Redis need a file for this node's copy of them", "give --records-copy FILE, or --state FILE: then the copy is "+recordsCopy+" beside it")
	case c.RecordsCopy != "" && !c.SharesRecords():
		return c.Fault("records-copy", "records are not in Redis", "leave it out, or give --records redis://HOST:PORT")
	case c.AuditFor < leastAudit:
		return c.Fault("audit-for", text.FormatDuration(c.AuditFor)+" is less than a day", "keep entries for a day or longer, such as 400d")
	case c.SupportFor <= 0:
		return c.Fault("support-for", "must be more than 0", "write a time such as 31d")
	}
	return nil
}

func checkRecords(s string) error {
	if !connect.IsURL(s) {
		return nil
	}
	log, err := recordlog.Open(s, "stint")
	if problem, ok := errors.AsType[*connect.URLError](err); ok {
		return config.Fault(problem.Problem, problem.Hint)
	}
	if err == nil {
		log.Close()
	}
	return err
}
