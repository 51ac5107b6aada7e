package telemetry

import "stint/limiter"

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

// ClientsStats are the numbers of decisions by records, beside the requests that bans deny.
type ClientsStats struct {
	Failed  uint64 // look-ups that failed
	Misfits uint64 // overrides that a rule could not take
}

// Clients sets the function that returns the numbers of decisions by records, and shows how many
// requests bans deny. The function is called at each scrape. Call Clients at most once.
func (m *Metrics) Clients(read func() ClientsStats) {
	m.reg.MustRegister(numbers[ClientsStats]{clientsNumbers, func(tell func(*ClientsStats, ...string)) {
		s := read()
		tell(&s)
	}})
	m.reg.MustRegister(numbers[uint64]{bannedNumbers, func(tell func(*uint64, ...string)) {
		for i, kind := range banKinds {
			n := m.banned[i].Load()
			tell(&n, string(kind))
		}
	}})
}

// clientsNumbers are the metrics of decisions by records.
var clientsNumbers = []number[ClientsStats]{
	counter("record_lookup_failures_total", "Look-ups in the records that failed; the request was decided as if there was no record.", func(s *ClientsStats) uint64 { return s.Failed }),
	counter("override_misfits_total", "Overrides that do not fit their rule, whose own numbers apply; counted once for each, and again after a change of the rules.", func(s *ClientsStats) uint64 { return s.Misfits }),
}

var bannedNumbers = []number[uint64]{
	counter("banned_total", "Requests denied by a ban, by what is banned: subject or address.", func(n *uint64) uint64 { return *n }, "by"),
}

// banKinds are the kinds of bans, in the order of Metrics.banned.
var banKinds = [...]limiter.BanKind{limiter.BannedSubject, limiter.BannedAddress}

// countBan counts a request that a ban denied.
func (m *Metrics) countBan(kind limiter.BanKind) {
	for i := range banKinds {
		if banKinds[i] == kind {
			m.banned[i].Add(1)
		}
	}
}
