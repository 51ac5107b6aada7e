package stint

// Coordination is how the nodes of a fleet agree on a limit.
type Coordination uint8

// The modes of coordination.
const (
	// Strict asks the store for every take.
	Strict Coordination = iota
	// Leased lets each node decide busy keys from units that the store lent it, see package
	// fleet/lease.
	Leased
	// Eventual lets each node decide alone and report to the store afterwards.
	Eventual
	// Gossip lets each node decide alone and report to the other nodes.
	Gossip
)

// String returns the word for it in rule files.
func (c Coordination) String() string {
	return [...]string{"strict", "leased", "eventual", "gossip"}[c]
}
