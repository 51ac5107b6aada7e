package telemetry

// RecordsStats are the numbers of the records.
type RecordsStats struct {
	Revision  uint64  // of the last change that is in force
	Age       float64 // seconds since this was certainly the last change; 0 if they are not shared
	Available bool    // the log that nodes share can be read, or there is none
	Audited   uint64  // number of the last entry of the audit trail
	Head      string  // hash of that entry
}

// Records sets the function that returns the numbers of the records. It is called at each scrape. Call
// Records at most once.
func (m *Metrics) Records(read func() RecordsStats) {
	numbersOf := func(tell func(*RecordsStats, ...string)) {
		s := read()
		tell(&s)
	}
	m.reg.MustRegister(numbers[RecordsStats]{recordsNumbers, numbersOf})
	m.reg.MustRegister(numbers[RecordsStats]{recordsHead, func(tell func(*RecordsStats, ...string)) {
		s := read()
		tell(&s, s.Head)
	}})
}

// recordsNumbers are the metrics of the records.
var recordsNumbers = []number[RecordsStats]{
	gauge("records_revision", "Revision of the last change of records that is in force.", func(s *RecordsStats) float64 { return float64(s.Revision) }),
	gauge("records_age_seconds", "Time since this was certainly the last change on all nodes; 0 if records are not shared.", func(s *RecordsStats) float64 { return s.Age }),
	gauge("records_available", "0 while the records in Redis cannot be read: changes are refused, and the last ones that were read stay in force.", func(s *RecordsStats) float64 { return one(s.Available) }),
}

// recordsHead is the place of the audit trail.
var recordsHead = []number[RecordsStats]{
	gauge("records_audit_head", "Number of the last entry of the audit trail, by its hash.", func(s *RecordsStats) float64 { return float64(s.Audited) }, "hash"),
}
