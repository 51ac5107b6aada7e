// Package gossip lets the nodes of a fleet decide limits without any store: each decides
// from what it took itself and from what the others told it, and tells them what it took.
//
// A [Node] is what one process knows: it never blocks, starts nothing, and has no clock and
// no network, so that package fleet/sim can put fleets of them through bad weather. A
// [Store] is a Node with a clock and with [Peers], which carry its messages.
//
// # What is told
//
// Of each key a node counts how many units it took, in one number that only grows. Every
// interval it tells all peers the numbers that changed since. Who hears a number debits what
// it grew by since he heard it last. So a message that comes twice or too late changes
// nothing, and one that is lost is made up for by the next.
//
//	told     counts that changed, numbered message after message
//	missed   a gap in the numbers is asked for after three intervals, of who sent them
//	compared now and then two nodes compare what they know, also of nodes that died
//	joined   a new node is told all by one of the others: its states, and the counts in them
//	waited   a node that stood still asks for what came meanwhile, as it is no news any more
//
// A count belongs to one life of a key: who takes of a key that was as untouched for a while
// begins another one, with a higher number, so that others may have forgotten the first.
//
// # What passes too much
//
// While a node has not heard of it, it gives out what others took at the same time. What
// that is too much is a debt, without a cap, on all nodes: it is worked off by the rate
// before anything passes again, so it happens once for a burst and not once in each window.
// With N nodes, S until what one took is known to all, and an excess (units a second that are
// asked for above the rate)
//
//	E <= min((N-1)*(burst + rate*S), excess*S)
//
// and where the fleet is cut into k parts for a time T, (k-1)*(burst + rate*T). When the
// parts find each other again each learns how much the others took, and not when. It takes
// for used what must be: all that was taken since they knew the same, but for what the key
// could have borne in that time, as it was idle here; and what both took in their last
// stretch of use, but for what came back in it. That is all there is where a part never had
// a rest, and where all began after one. What came before a rest in the middle may be
// forgotten. What was not used is never taken for used.
//
// # Time
//
// No two nodes need to agree on what time it is: messages say how long ago. Only windows
// begin by each node's own clock, at multiples of their length: units count in the window in
// which a node hears of them, or the one before if they belonged there for who took them. So
// clocks that differ make windows begin apart, and at most two limits more pass by that, once.
//
// # What it does not know
//
// Limits that carry no debt, which is all but token_bucket (steady), leaky_bucket and
// fixed_window at multiples of its length, hold what is too much against a key for one
// period, and forget it then: E may come again in each. Reservations (Spec.Hold) are counted
// by others as taken, and given back when they hear of that.
package gossip
