// Package recordlog keeps the log of records in Redis or Valkey, so that nodes share them, and the
// summaries by which nodes show each other what they know (see [Summaries]). It knows only numbers,
// hashes, keys and values. Beside it is the queue of events that nodes deliver together (see [Deliveries]).
//
// All keys of the log lie in one slot of a Cluster:
//
//	NAMESPACE:{records}:head      hash: number and hash of the last entry; sum, the bytes of all entries
//	NAMESPACE:{records}:log       stream of the last entries: the entry with number 7 has the ID 7-0, and
//	                              the fields hash, data, and sum as it was then
//	NAMESPACE:{records}:state     hash of what all entries together result in
//	NAMESPACE:{records}:nodes     hash: name of a node, and "REVISION MILLISECONDS" when it was last seen
//	NAMESPACE:{records}:restore   token of the node that restores the state; expires
//	NAMESPACE:{records}:restored  the state that it has written so far; expires
//
// The first four never expire. Each script changes them all or none, and is in a file of its own.
package recordlog
