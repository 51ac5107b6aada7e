package rule

import (
	"math"

	"stint"
	"stint/rule/action"
	"stint/rule/denial"
)

// Entry is one (key, value) of a descriptor.
type Entry = action.Entry

// Descriptor is the ordered list of entries that describes a request, as Envoy
// means it, and what the request costs the limits that match it: one unit where
// nothing is said.
type Descriptor struct {
	Entries []Entry
	Cost    uint32
}

// Table is all rules of all domains, compiled. It is immutable and safe for
// concurrent use. The zero Table has no domain and so limits nothing.
type Table struct {
	domains  []*Domain
	byName   map[string]*Domain
	rules    []*Rule
	warnings []Warning
	files    []string
	hash     string
}

// Domain returns the domain of that name, nil if there is none.
func (t *Table) Domain(name string) *Domain { return t.byName[name] }

// Domains returns all domains in the order of their files. The slice must not be
// changed.
func (t *Table) Domains() []*Domain { return t.domains }

// Rules returns all rules, in the order of their files and lines. The slice must
// not be changed.
func (t *Table) Rules() []*Rule { return t.rules }

// Hash returns a short hash of what was read, by which a fleet tells whether all
// its nodes have the same rules. It does not depend on the names of the files.
func (t *Table) Hash() string { return t.hash }

// Files returns the files of lists and keys that were read beside the rule files, so
// that they can be watched. The slice must not be changed.
func (t *Table) Files() []string { return t.files }

// Domain is the rules of one domain: a tree of descriptors, and the actions that
// turn a plain HTTP request into descriptors. It is immutable.
type Domain struct {
	name   string
	atomic bool
	file   string
	root   level
	keys   keyPaths
	http   []HTTPLimit
	paths  action.Paths
	lists  []*Listed

	secrets []string // descriptor keys that http makes of secrets

	readsPath bool // one of http does
}

// Name returns the name of the domain.
func (d *Domain) Name() string { return d.name }

// File is the file in which the domain stands.
func (d *Domain) File() string { return d.file }

// Atomic says whether all limits of one call are decided as one, all or none. It
// is true unless the file says `atomic: false`.
func (d *Domain) Atomic() bool { return d.atomic }

// HasHTTP says whether the domain says how a plain HTTP request becomes descriptors.
func (d *Domain) HasHTTP() bool { return len(d.http) > 0 }

// Rule is one limit on one node of a domain, with its policy. It is immutable.
type Rule struct {
	// What AppendKey reads stands together: what keys begin with, and the levels whose
	// values are part of them.
	identity string
	varies   []int
	secrets  []int // of these, hashes of secrets
	reveals  bool  // the identity holds a hash of a secret
	placed   []int // the same for AppendPlace

	// Name is what users see: the name that the file gives it, else
	// domain/key[=value]/..., with #1, #2 and so on where a node has several limits.
	// It is unique within its domain.
	Name string

	// Given is the name as the file gives it, "" where it gives none. Replaces
	// speaks of these, and several rules may bear the same.
	Given string

	// Domain is the name of the domain.
	Domain string

	// Path is the way to the node, from the root of the domain.
	Path []Level

	// Limit says how much may pass, as the outside sees it; an Unlimited one for
	// `unlimited: true`.
	Limit *stint.Limit

	// Stored is what the store is asked: Limit, or, where Soft is set, the same with
	// requests and burst larger by that part, rounded down.
	Stored *stint.Limit
	Soft   Ratio

	// Tally is set where the limit counts as envoyproxy/ratelimit does: what is denied is
	// charged too, and what is asked for is over where more than Limit is used with it, so
	// also a look that finds more used. It is what the store is asked, in place of Stored:
	// it holds one unit more and debits all, so that what it has left tells which it is.
	Tally *stint.Limit

	// Answers is set for `count: responses` and says which answers are charged; nil:
	// every request is, at once.
	Answers *Answers

	// Elastic lets a key pass the limit while there is room elsewhere; nil: none does.
	Elastic *Elastic

	// Denial is the answer to what the limit denies; nil: the ordinary one.
	Denial *denial.Denial

	// Unit is the word that the file uses for the period, such as "minute"; "" where
	// it gives a length.
	Unit string

	// Shadow: count, but deny nobody. Quota: deny only together with all other quota
	// limits of the call. Both are Envoy's.
	Shadow, Quota bool

	// Replaces names the limits that are dropped from a call which this one matches.
	Replaces []string

	// OnStoreFailure answers when the store cannot.
	OnStoreFailure Failure
	// LocalShare and Nodes are set where OnStoreFailure is Local: the part of the
	// rate and burst that may pass while the store is away, divided by Nodes, the
	// most nodes there may be.
	LocalShare Ratio
	Nodes      uint32
	// Local is that share as a limit of its own; nil where it is less than one request
	// and so denies everything. A leased rule gives it to each process at all times.
	Local *stint.Limit

	// Terms are what all takes of the rule have in common; nil in a catalog.
	Terms *stint.Terms

	// ShardBy are the keys of the entries that place the rule's buckets in a store of
	// several servers, see AppendPlace; nil: the whole key does.
	ShardBy []string

	// Coordination is how the nodes agree. KeptAfterLoss says that a key of a leased rule
	// starts unused, not used up, when the store lost what it knew.
	Coordination  Coordination
	KeptAfterLoss bool
	// AskPeers says that all nodes are asked before a gossip rule decides.
	AskPeers bool

	// Headers are the presets of the answer's headers; nil where the rule is silent.
	Headers []Preset

	// DetailedMetric and Metadata are Envoy's: whether metrics should carry the
	// values of the request, and what the answer's dynamic metadata should carry.
	// Metadata must not be changed.
	DetailedMetric bool
	Metadata       map[string]any

	// File and Line are where the rule stands.
	File string
	Line int

	// Index is the position in [Table.Rules]; -1 for a rule that stands in a catalog.
	Index int
}

// Level is one step on the way to a node.
type Level struct {
	// Key is compared as it stands.
	Key string
	// Value is matched as it stands, or as a pattern where Wildcard is set; "" is
	// any value.
	Value    string
	Wildcard bool
	// Shared: all values that match the pattern share one counter (Envoy's
	// share_threshold).
	Shared bool
	// ValueToMetric is Envoy's: metrics should carry the value of this level.
	ValueToMetric bool
}

// String returns the level as names of rules show it.
func (l Level) String() string {
	if l.Value == "" {
		return l.Key
	}
	return l.Key + "=" + l.Value
}

// Varies says whether each value that the level matches has a counter of its own.
func (l Level) Varies() bool { return l.Value == "" || l.Wildcard && !l.Shared }

// Failure says what answers when the store cannot.
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
	// Leased lets each node decide busy keys from what the store lends it.
	Leased = stint.Leased
	// Eventual lets each node decide by itself, and tells the store afterwards.
	Eventual = stint.Eventual
	// Gossip lets each node decide by itself, and has nodes tell each other.
	Gossip = stint.Gossip
)

// Mode returns the coordination that is in force: strict where the limit does not go with
// what the rule asks for.
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

// The presets; docs/http.md says what each sends.
const (
	IETF    Preset = iota // RateLimit, RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers
	Legacy                // X-RateLimit-Limit, -Remaining, -Reset, -Retry-After
	Draft03               // X-RateLimit-Limit, -Remaining, -Reset as Envoy writes them
	None                  // no header
)

var presetNames = [...]string{"ietf", "legacy", "draft03", "none"}

// String returns the word of the rule file.
func (p Preset) String() string { return presetNames[p] }

// PresetNames returns the words of the rule file, in the order of the presets.
func PresetNames() []string { return presetNames[:] }

// ParsePreset returns the preset of that name.
func ParsePreset(name string) (Preset, bool) {
	for i, n := range presetNames {
		if n == name {
			return Preset(i), true
		}
	}
	return 0, false
}

// Ratio is a part of a whole in millionths: 10 % is 100,000.
type Ratio uint32

// Whole is 100 %.
const Whole Ratio = 1_000_000

// Of returns the part r of n, rounded down, at most what fits.
func (r Ratio) Of(n uint32) uint32 {
	return uint32(min(uint64(n)*uint64(r)/uint64(Whole), math.MaxUint32))
}
