// Package gossip lets the nodes of a fleet decide limits without a store. Each node decides from
// its own counts and those that other nodes report, and reports its own to them.
//
// A [Node] holds the counts of one process. It never blocks, starts no goroutine, and has no
// clock and no network, so that package fleet/sim can test fleets of them under message loss,
// delays and partitions. A [Store] is a Node with a clock, and with [Peers] that carry its
// messages.
//
// # Messages
//
// For each key a node counts the units that it took, in a number that only grows. Once every
// interval it sends the changed numbers to all peers. The receiver debits the difference to the
// last number that it received. Therefore a duplicate or late message has no effect, and the next
// message makes up for a lost one.
//
//	report   the counts that changed; reports are numbered
//	repair   after three intervals with a gap in the numbers the receiver asks the sender
//	compare  now and then two nodes compare all their counts, those of dead nodes too
//	join     a new node gets the states and counts of all keys from another node, by period
//	pause    a node that stood still asks again for what arrived meanwhile, because it is old
//
// A count belongs to one life of a key. When a key was untouched for a while, the next take
// starts a new count with a higher number, because other nodes may have removed the old one.
//
// # How much may pass above the limit
//
// A node may give out units that other nodes took a moment ago, until it receives their reports.
// The excess is a debt on all nodes, without a cap. The rate pays it off before anything passes
// again, so it happens once for a burst and not in each window. With N nodes, S the time until
// all nodes know a take, and excess the units per second requested above the rate:
//
//	E <= min((N-1)*(burst + rate*S), excess*S)
//
// If the fleet is cut into k parts for a time T: (k-1)*(burst + rate*T).
//
// # Periods
//
// After a lost report, a partition or a start, a node does not know when the others took. So each
// node keeps, for each key, node and period, the count at the end of the period, see counter. Nodes
// that meet exchange these. Of two counts of one period the larger is right, and the use follows
// from all of them in the order of time, as one node would have counted it. A node that starts again
// under the same name has another number, and so other counts.
//
// Less than the true use may count, because a period's units count as taken at its begin, because
// old periods become one (a node keeps 16 for each key and node while reports are missing), and
// because a key that is untouched for a minute is removed meanwhile. Units that a node took which
// nobody here knew count only if this node's use is lower than the other's. Units that nobody used
// do not count as used, but for those of the time that a report travels.
//
// # Time
//
// No two nodes need to agree on the time: messages contain how long ago a period began. Only
// windows begin by each node's own clock, at multiples of their length. Units count in the window
// in which a node receives the report, or in the one before if the sender took them there. If
// clocks differ, windows begin at different times, and at most two more limits pass by that, once.
//
// # Limits of this mode
//
// Only token_bucket (steady), leaky_bucket and fixed_window at multiples of its length carry a
// debt. The others hold an excess against a key for one period and then forget it, so E may come
// again in each period. Other nodes count reservations (Spec.Reserve) as taken, and give them back
// when their report says so.
package gossip
