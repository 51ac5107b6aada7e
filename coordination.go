package stint

// Coordination says how the nodes of a fleet agree on a limit.
type Coordination uint8

// The modes of coordination.
const (
	// Strict asks the store for every take.
	Strict Coordination = iota
	// Leased lets each node decide busy keys from what the store lends it, see package
	// fleet/lease.
	Leased
	// Eventual lets each node decide by itself, and tells the store afterwards.
	Eventual
	// Gossip lets each node decide by itself, and has nodes tell each other.
	Gossip
)

// String returns the word of the rule file.
func (c Coordination) String() string {
	return [...]string{"strict", "leased", "eventual", "gossip"}[c]
}
