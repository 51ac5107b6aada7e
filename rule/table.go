package rule

import (
	"math"

	"stint"
	"stint/rule/action"
	"stint/rule/denial"
)

// Entry is one (key, value) of a descriptor.
type Entry = action.Entry

// Descriptor is the ordered list of entries that describes a request, as in Envoy. Cost is what
// the request costs each limit that matches.
type Descriptor struct {
	Entries []Entry
	Cost    uint32
}

// Table is the rules of all domains. It is immutable and safe for concurrent use. The zero Table
// has no domain and limits nothing.
type Table struct {
	domains  []*Domain
	byName   map[string]*Domain
	rules    []*Rule
	warnings []Warning
	files    []string
	hash     string

	plans       []Plan
	defaultPlan string
}

// Domain returns the domain with that name, nil if there is none.
func (t *Table) Domain(name string) *Domain { return t.byName[name] }

// Domains returns all domains in file order. Callers must not change the slice.
func (t *Table) Domains() []*Domain { return t.domains }

// Rules returns all rules ordered by file and line. Callers must not change the slice.
func (t *Table) Rules() []*Rule { return t.rules }

// Terms returns the terms of all rules and their candidates.
func (t *Table) Terms() []*stint.Terms {
	all := make([]*stint.Terms, 0, len(t.rules))
	for _, r := range t.rules {
		all = append(all, r.Terms)
		if r.Candidate != nil {
			all = append(all, r.Candidate.Terms)
		}
	}
	return append(all, t.planTerms()...)
}

// Hash returns a short hash of the files' contents. Nodes compare it to see whether they have the
// same rules. It does not depend on file names.
func (t *Table) Hash() string { return t.hash }

// Files returns the files of lists and keys that were read besides the rule files, for programs
// that watch files. Callers must not change the slice.
func (t *Table) Files() []string { return t.files }

// Domain is the rules of one domain: a tree of descriptors, and the actions that make descriptors
// of an HTTP request. It is immutable.
type Domain struct {
	name   string
	atomic bool
	file   string
	root   level
	keys   keyPaths
	http   []HTTPLimit
	paths  action.Paths
	lists  []*Listed

	secrets   []string // descriptor keys whose values are hashes of secrets
	addresses []string // descriptor keys whose values are addresses of clients

	readsPath     bool // a descriptor depends on how the path is read
	readsIdentity bool // a descriptor depends on authentication
	deniesKeys    bool // an action denies requests with API keys that are not valid
}

// Name returns the name of the domain.
func (d *Domain) Name() string { return d.name }

// File returns the file in which the domain begins.
func (d *Domain) File() string { return d.file }

// Atomic reports whether all limits of one call are decided together, all or none. It is true
// unless the file has `atomic: false`.
func (d *Domain) Atomic() bool { return d.atomic }

// HasHTTP reports whether the domain has an http section, which describes HTTP requests.
func (d *Domain) HasHTTP() bool { return len(d.http) > 0 }

// Rule is one limit on one node of a domain, with its policy. It is immutable.
type Rule struct {
	// The fields that AppendKey reads are next to each other in memory: the beginning of keys,
	// and the levels whose values are part of keys.
	identity string
	varies   []int
	secrets  []int // levels whose values are hashes of secrets
	reveals  bool  // the identity contains a hash of a secret
	placed   []int // levels that AppendPlace appends

	// Name is what users see: the name in the file, else domain/key[=value]/..., with #1, #2 and
	// so on if a node has several limits. It is unique within its domain.
	Name string

	// Given is the name in the file, "" if there is none. Replaces refers to these names; several
	// rules may have the same.
	Given string

	// Domain is the name of the domain.
	Domain string

	// Path is the way to the node, from the root of the domain.
	Path []Level

	// Limit is the limit that users see; an Unlimited one for `unlimited: true`.
	Limit *stint.Limit

	// Stored is the limit that the store is asked. It equals Limit; if Soft is set, requests and
	// burst are larger by that ratio, rounded down.
	Stored *stint.Limit
	Soft   Ratio

	// Tally is set if the limit counts as envoyproxy/ratelimit does: denied requests are charged
	// too, and a request is over if more than Limit is used including it. The store is asked
	// Tally in place of Stored: it has one unit more and debits every request, so its remaining
	// units tell which requests are over.
	Tally *stint.Limit

	// Answers is set for `count: responses` and has the statuses that are charged; nil: every
	// request is charged at once.
	Answers *Answers

	// Elastic lets a key exceed the limit while there is room elsewhere; nil: never.
	Elastic *Elastic

	// Penalty keeps keys away that go on after the limit denied them; nil: none. It is a limit of the
	// algorithm stint.Penalty.
	Penalty *stint.Limit

	// Usage is what the store keeps of the use of the keys by periods; nil: nothing.
	Usage *Usage

	// Candidate is the rule with the numbers that it tries without effect, as it would be if they were
	// its own; nil: it tries none. It has the key of its buckets, see AppendCandidate, and its Terms.
	Candidate *Rule

	// Denial is the answer to a denied request; nil: the ordinary one.
	Denial *denial.Denial

	// Excess is what happens to a request that the limit denies; nil: it is dropped.
	Excess *denial.Excess

	// Unit is the file's word for the period, such as "minute"; "" if the file gives a length.
	Unit string

	// Shadow: count, but never deny. Quota: deny only if all quota limits of the call deny. Both
	// are Envoy's.
	Shadow, Quota bool

	// Replaces names limits that do not apply to a call which this limit matches.
	Replaces []string

	// OnStoreFailure decides requests while the store fails.
	OnStoreFailure Failure
	// LocalShare and Nodes are set if OnStoreFailure is Local: the share of rate and burst that
	// may pass while the store fails, and the greatest number of nodes, which divide it.
	LocalShare Ratio
	Nodes      uint32
	// Local is that share of one node as a limit; nil if it is less than one request, which
	// denies everything. With coordination: leased each process always has it.
	Local *stint.Limit

	// Terms are shared by all takes of the rule; nil in a catalog.
	Terms *stint.Terms

	// ShardBy are the keys of the entries that choose the server of a bucket, see AppendPlace;
	// nil: the whole key chooses.
	ShardBy []string

	// Coordination is how nodes agree. KeptAfterLoss: when the store lost its data, a key of a
	// leased rule starts unused rather than used up.
	Coordination  Coordination
	KeptAfterLoss bool
	// AskPeers: a gossip rule asks all nodes before it decides.
	AskPeers bool

	// Headers are the header presets of the answer; nil: the service's default.
	Headers []Preset

	// DetailedMetric and Metadata are Envoy's: whether metrics carry the values of the request,
	// and the dynamic metadata of the answer. Callers must not change Metadata.
	DetailedMetric bool
	Metadata       map[string]any

	// File and Line are the place of the limit.
	File string
	Line int

	// Index is the position in [Table.Rules]; -1 for a rule of a catalog.
	Index int

	// Plan is set for a rule whose limit depends on the client's plan, see Planned; OfPlan is the plan
	// whose limit this rule has. Position is the number of its `rate_limit` in the list of the node.
	Plan     *Planned
	OfPlan   string
	Position int

	// Changed is set for a copy with other numbers, see [Rule.With].
	Changed bool

	// Base is the rule of which this one is a copy with other numbers, see [Rule.With], or with the
	// limit of another plan; nil: it is none.
	Base *Rule
}

// Original returns the rule of the table of which this one is a copy, or the rule itself if it is none.
func (r *Rule) Original() *Rule {
	for r.Base != nil {
		r = r.Base
	}
	return r
}

// Level is one element of the path to a node.
type Level struct {
	// Key is compared literally.
	Key string
	// Value is compared literally, or as a pattern if Wildcard is set; "" matches any value.
	Value    string
	Wildcard bool
	// Shared: all values that match the pattern share one counter (Envoy's share_threshold).
	Shared bool
	// ValueToMetric is Envoy's: metrics carry the value of this level.
	ValueToMetric bool
	// Show: the value may be shown in clear where the busiest keys are.
	Show bool
}

// String returns the level as it stands in names of rules.
func (l Level) String() string {
	if l.Value == "" {
		return l.Key
	}
	return l.Key + "=" + l.Value
}

// Varies reports whether each value that matches the level has its own counter.
func (l Level) Varies() bool { return l.Value == "" || l.Wildcard && !l.Shared }

// Failure is the policy for requests while the store fails.
type Failure = stint.Failure

// The failure policies.
const (
	// Allow lets the request pass, marked degraded. The default.
	Allow = stint.Allow
	// Deny refuses it.
	Deny = stint.Deny
	// Local decides by a fixed share in this process.
	Local = stint.Local
)

// Coordination is how the nodes of a fleet agree on a limit.
type Coordination = stint.Coordination

// The modes of coordination.
const (
	// Strict asks the store for every take.
	Strict = stint.Strict
	// Leased lets each node decide busy keys from units that the store lent it.
	Leased = stint.Leased
	// Eventual lets each node decide by itself and report to the store afterwards.
	Eventual = stint.Eventual
	// Gossip lets each node decide by itself and report to the other nodes.
	Gossip = stint.Gossip
)

// Mode returns the coordination that applies: the one in the file, or Strict if it does not work
// with this limit.
func (r *Rule) Mode() Coordination {
	fits := r.Answers == nil
	switch r.Coordination {
	case Leased:
		fits = fits && r.Stored.ForStores().Leasable()
	case Eventual:
		fits = fits && r.Stored.ForStores().Mergeable()
	case Gossip:
		fits = r.Stored.Algorithm() != stint.Unlimited
	}
	if r.Elastic != nil || !fits {
		return Strict
	}
	return r.Coordination
}

// Preset is a family of response headers.
type Preset uint8

// The presets; docs/http.md lists the headers of each.
const (
	IETF    Preset = iota // RateLimit, RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers
	Legacy                // X-RateLimit-Limit, -Remaining, -Reset, -Retry-After
	Draft03               // X-RateLimit-Limit, -Remaining, -Reset as Envoy writes them
	None                  // no header
)

var presetNames = [...]string{"ietf", "legacy", "draft03", "none"}

// String returns the name in rule files.
func (p Preset) String() string { return presetNames[p] }

// PresetNames returns the names in rule files, in the order of the constants.
func PresetNames() []string { return presetNames[:] }

// ParsePreset returns the preset with that name.
func ParsePreset(name string) (Preset, bool) {
	for i, n := range presetNames {
		if n == name {
			return Preset(i), true
		}
	}
	return 0, false
}

// Ratio is a fraction in millionths: 10 % is 100,000.
type Ratio uint32

// Whole is 100 %.
const Whole Ratio = 1_000_000

// Of returns r times n, rounded down, at most math.MaxUint32.
func (r Ratio) Of(n uint32) uint32 {
	return uint32(min(uint64(n)*uint64(r)/uint64(Whole), math.MaxUint32))
}
