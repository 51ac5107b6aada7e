// Package eventual lets each node of a fleet decide keys by itself, from what it knows of
// them, and tells the store afterwards: too much may pass for an interval, and not for
// longer.
//
// A [Node] is what one process knows: it never blocks, starts nothing and has no clock, so
// that package fleet/sim can put hundreds of them through bad weather. A [Store] is a Node
// with a clock, around the store that all nodes share.
//
// # What a node knows of a key
//
//	what the store last said
//	+ what was taken here since, whether the store has been told of it or not
//
// A take is decided from that sum at once. Every interval the node tells the store what was
// taken here of all keys, in a few calls that travel together, and hears in the answers what
// was taken everywhere. What it took itself and the store has not acknowledged is never
// overwritten: it is added to whatever the store says.
//
// Everything is debited, as a debt where there was no room for it, and that debt is worked
// off before anything passes again. So what passes too much does so once in a burst:
//
//	(N-1) * (burst + rate*S)    with N nodes, each of which spends what it has not heard
//	                            that others spent; S is two intervals and both exchanges:
//	                            until the store is told, and until this node asks it
//	excess * S                  if that is less: nobody passes who does not ask
//
// Of a window the burst is the limit on either side of an edge, if S lies across one.
//
// # Each push is charged once
//
// A push whose answer is lost may have been charged. It is told again with the same receipt,
// a key of its own that only one of both can take: they are all or none, so what is told again
// charges nothing more. A receipt is known for five minutes; where nothing came through for
// longer than that, units may be charged twice. They are never lost while the process lives.
//
// Where the store cannot read the state of some key (see [stint.CorruptState]) nothing of a push
// is charged. It is divided then: what else was in it is pushed at once, that key again and
// again until it is mended. Of a push and its parts only one is ever charged.
package eventual
