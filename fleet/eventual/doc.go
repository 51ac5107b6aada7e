// Package eventual lets each node of a fleet decide keys from its own memory, and report them to
// the store afterwards. More than the limit may pass, but for an interval only.
//
// A [Node] holds the keys of one process. It never blocks, starts no goroutine and has no clock, so
// that package fleet/sim can simulate hundreds of them with lost messages, crashes and partitions.
// A [Store] is a Node with a clock, around the store that all nodes share.
//
// # What a node knows of a key
//
//	the store's last answer
//	+ all units taken here that this answer does not contain
//
// A node decides a take from that sum at once. Every interval it reports to the store the units
// taken here of all keys, in a few calls, and the answers contain what all nodes took. The node
// adds its units that the store has not acknowledged to each answer.
//
// All units are debited. Units without room become a debt, which is paid off before anything passes
// again. So the excess happens once in a burst:
//
//	(N-1) * (burst + rate*S)    with N nodes, each of which spends units that others have spent
//	already; S is two intervals and two exchanges: until another node
//	has reported, and until this node has the answer
//	excess * S                  if that is less, with excess the units requested above the rate
//
// For windows the burst is the limit, on each side of an edge if S lies across one.
//
// # Each report is charged once
//
// A report whose answer is lost may have been charged. It is repeated with the same receipt. A
// receipt is a key of its own whose units are taken with the report, all or none. Only one of the
// two attempts can take them, so the second charges nothing. A receipt lasts for five minutes. If
// no call succeeds for longer than that, units may be charged twice. While the process lives they
// are never lost.
//
// If the store cannot decode the state of a key (see [stint.CorruptState]), it charges nothing of
// the report. The node then divides the report. It sends the decodable part at once, and repeats
// the undecodable part until somebody repairs the state. Either the report or its parts are
// charged, never both.
package eventual
