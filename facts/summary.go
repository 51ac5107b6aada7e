package facts

import "time"

// Summary is what one node, or several together, know about their rules. Counts go on for as long as
// the process runs, and over a restart with a state file.
type Summary struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // of the counts: the latest start of the nodes
	Nodes []Node    `json:"nodes"`
	Rules []Rule    `json:"rules"` // in the order of the table; then rules per API, one set a domain
}

// Node is one process whose facts are in a Summary.
type Node struct {
	Name     string        `json:"name"`
	At       time.Time     `json:"at"` // of its last summary
	Decided  uint64        `json:"decided"`
	Failed   uint64        `json:"failed"` // calls without a decision
	Degraded uint64        `json:"degraded"`
	Median   time.Duration `json:"median_ns"` // of the duration of a decision; 0: not measured yet
	P99      time.Duration `json:"p99_ns"`

	// Generation counts the rules that were loaded; Hash names them. Two nodes with unlike hashes
	// decide by unlike rules.
	Generation uint64 `json:"generation"`
	Hash       string `json:"hash"`

	// StoreError is what is wrong with the store, empty if nothing is.
	StoreError string `json:"store_error,omitempty"`
}

// Counts are decisions of one rule. Those that the cache of denials answered are among them. Of a
// rule in shadow mode they are what it would have decided.
type Counts struct {
	Allowed  uint64 `json:"allowed"`
	Denied   uint64 `json:"denied"`
	Over     uint64 `json:"over"`     // allowed above the plain limit (soft, elastic); among Allowed
	Degraded uint64 `json:"degraded"` // by the failure policy; among Allowed and Denied
	Looks    uint64 `json:"looks"`    // asked without taking; not among the others
}

// Rule has the facts of one rule.
type Rule struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Shadow bool   `json:"shadow"`
	Counts

	// Keys estimates how many different keys there were in the current and the previous generation, of
	// ten minutes each, with a standard error of 1.6 %.
	Keys uint64 `json:"keys"`

	// First and Last are when the rule was asked first and last; zero: never.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`

	// Since is from when on its requests are seen: when the rule was added, or the service went on after
	// it had stopped for long. Zero: from the start of the facts.
	Since time.Time `json:"since"`

	Peaks     Peaks      `json:"peaks"`
	Candidate *Candidate `json:"candidate,omitempty"`
}

// Peaks is how close the keys of a rule come to its limit. It is measured for a sample of keys that
// their hash chooses, over periods of the limit.
type Peaks struct {
	// Since is when the measurement began: it lasts for one to two weeks, and begins anew when the numbers of the
	// limit change. Zero: nothing is measured yet.
	Since time.Time `json:"since"`

	Sampled uint64 `json:"sampled"` // keys with a finished period
	Periods uint64 `json:"periods"`

	// FirstPeriods are the periods that were the first of their key.
	FirstPeriods uint64 `json:"first_periods"`

	// Peak use of a period as a share of the limit: 1 is all of it. It is the larger of two: what was
	// used at once, with what was denied in the period, of what the limit allows at once; and what was
	// asked for in the period, of the most that the limit allows in one. For buckets that fill up more
	// slowly a period is the time in which they do. Clients that were denied ask less, so that
	// shares above 1 are at least so high.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`

	// KeyP99 is what 99 % of the sampled keys never exceeded: the quantile of their largest peaks.
	KeyP99 float64 `json:"key_p99"`

	// DeniedKeys is how many of the sampled keys were denied at least once. Excess is the median of
	// their largest peak.
	DeniedKeys uint64  `json:"denied_keys"`
	Excess     float64 `json:"excess"`

	// Denials are the denials of sampled keys by tenths of the period in which they fell.
	Denials [10]uint64 `json:"denials"`

	// Retries are the denied requests of sampled keys after which the same key asked again within a
	// period; Passed are those of them whose next request passed.
	Retries uint64 `json:"retries"`
	Passed  uint64 `json:"passed"`

	// Bursts are the denials of sampled keys within one second of the first request of a burst, while the
	// key used less than half of the limit's average in the minute before.
	Bursts uint64 `json:"bursts"`

	// Largest is the share of all requests of the rule that fall on its busiest key.
	Largest float64 `json:"largest"`
}

// Candidate has the facts of other numbers that a rule tries without effect. Now and Then are
// counts of the same requests: by the limit that is in force, and by the candidate.
type Candidate struct {
	Limit string `json:"limit"` // in words, as in replay
	Now   Counts `json:"now"`
	Then  Counts `json:"then"`

	KeysDeniedNow  uint64 `json:"keys_denied_now"` // estimated
	KeysDeniedThen uint64 `json:"keys_denied_then"`
}

// Key has the counts of one of the busiest keys of a rule, in the current and the previous
// generation: for 10 to 20 minutes. The count by which the keys are sorted differs from the truth by at most Error,
// with a probability of 95 % where it was sampled. The other counts are from when the key came among the
// busiest, so that they may be too small.
type Key struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`

	// ID is the HMAC-SHA256 of the key under the secret of the namespace, 16 bytes in hexadecimal.
	ID string `json:"id"`

	// Entries are the values of the key where the rule file says `show: true`. Others are empty.
	Entries []Entry `json:"entries"`

	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Over    uint64 `json:"over"`
	Error   uint64 `json:"error"`

	// Nodes are the nodes among whose busiest keys it is.
	Nodes []string `json:"nodes"`
}

// Entry is one entry of a key. Value is empty where it is not shown.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Point is a piece of the history of a rule.
type Point struct {
	At time.Time `json:"at"` // its begin
	Counts
}

// Mark is a change that is shown on the history.
type Mark struct {
	At   time.Time `json:"at"`
	What string    `json:"what"` // reload, failed reload, epoch, start
	Note string    `json:"note,omitempty"`
}

// History is the history of one rule, or of all together if Rule is empty.
type History struct {
	Domain string        `json:"domain"`
	Rule   string        `json:"rule"`
	Step   time.Duration `json:"step_ns"` // a minute or ten
	Points []Point       `json:"points"`
	Marks  []Mark        `json:"marks"`
}
